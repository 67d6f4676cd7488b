"""A scale: it weighs all that an object keeps, wherever the object keeps it."""

import gc
import io
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from types import CodeType, FunctionType, ModuleType
from typing import Any


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
        """The size in bytes of the object, of the variables and classes of its module, and of all
        objects that these refer to. Modules, classes of other modules and code do not count.
        """
        # The scale holds each object that it has seen, so that no other object gets its id.
        seen, total = {id(part): part for part in self._owned}, 0
        module = type(self._item).__module__
        rest = [self._item, *type(self._item).__mro__, *_variables(self._item)]
        while rest:
            part = rest.pop()
            if id(part) not in seen and not _is_shared(part, module):
                seen[id(part)] = part
                total += sys.getsizeof(part)
                rest += _referents(part)
        return total


def _is_shared(part: Any, module: str) -> bool:
    """Return whether other objects than the weighed object use this object as well."""
    if isinstance(part, type):
        return part.__module__ != module
    return isinstance(part, (ModuleType, CodeType))


def _variables(item: Any) -> Iterable[Any]:
    """Return the variables of the module that defines the methods of an object."""
    for kind in type(item).__mro__:
        for value in vars(kind).values():
            names = getattr(value, "__globals__", {})
            if names.get("__name__") == kind.__module__ == type(item).__module__:
                # Python's own variables refer to the whole library.
                return [v for n, v in names.items() if not (n[:2] == n[-2:] == "__")]
    return ()


def _referents(part: Any) -> Iterable[Any]:
    """Return the objects to which an object refers, those which Python's collector of cyclic
    garbage leaves out included.
    """
    referents = gc.get_referents(part)
    if isinstance(part, FunctionType):
        # A function refers to its whole module, too.
        return (r for r in referents if r is not part.__globals__ and r is not part.__builtins__)
    if isinstance(part, dict):
        return (*referents, *dict.keys(part))
    if isinstance(part, io.StringIO) and not part.closed:
        return (*referents, io.StringIO.getvalue(part))
    if isinstance(part, ContextVar):
        return (*referents, part.get(None))
    return referents
