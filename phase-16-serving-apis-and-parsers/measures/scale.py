"""A scale: it weighs all that an object keeps, wherever the object keeps it."""

import gc
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

_SHARED = (type, ModuleType, CodeType)


class Scale:
    """A scale for one object, such as a detokenizer.

    Args:
        item: the object.
        owned: objects of the caller, which do not count.
    """

    def __init__(self, item: Any, *owned: Any) -> None:
        self._item, self._owned = item, owned

    @property
    def weight(self) -> int:
        """The size in bytes of the object, of the variables of its class and of its module, and of
        all objects that these refer to.
        """
        seen, total = set(map(id, self._owned)), 0
        rest = [self._item, *_variables(type(self._item))]
        while rest:
            part = rest.pop()
            if id(part) not in seen and not isinstance(part, _SHARED):
                seen.add(id(part))
                total += sys.getsizeof(part)
                # A function refers to its whole module too.
                is_function = isinstance(part, FunctionType)
                rest += part.__closure__ or () if is_function else gc.get_referents(part)
        return total


def _variables(kind: type) -> Iterator[Any]:
    """Yield the variables of a class, and those of the module that defines its methods."""
    names: dict[str, Any] = {}
    for value in vars(kind).values():
        yield value
        if isinstance(value, FunctionType):
            names = value.__globals__
    yield from (value for name, value in names.items() if not name.startswith("__"))
