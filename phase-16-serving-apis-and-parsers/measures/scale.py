"""A scale: it weighs all that an object keeps."""

import gc
import sys
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
        """The size in bytes of the object and of all objects that it refers to."""
        seen, total, rest = set(map(id, self._owned)), 0, [self._item]
        while rest:
            part = rest.pop()
            if id(part) not in seen and not isinstance(part, _SHARED):
                seen.add(id(part))
                total += sys.getsizeof(part)
                # A function refers to its whole module too.
                is_function = isinstance(part, FunctionType)
                rest += part.__closure__ or () if is_function else gc.get_referents(part)
        return total
