"""The base of objects that can be copied in the middle of a stream."""

import copy
from typing import Any, ClassVar, Self

# Most attributes have one of these types; `deepcopy` would look each up.
_UNCHANGING = frozenset({str, int, bool, type(None)})


class Copyable:
    """`copy` and `deepcopy` return an object at the same place, independent from then on.

    Attributes:
        _shared: the attributes that never change, or that copies share on purpose.
    """

    __slots__ = ()
    _shared: ClassVar[frozenset[str]] = frozenset()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        for name in (*getattr(self, "__dict__", ()), *getattr(self, "__slots__", ())):
            value = getattr(self, name)
            if name not in self._shared and type(value) not in _UNCHANGING:
                value = copy.deepcopy(value, memo)
            setattr(new, name, value)
        return new
