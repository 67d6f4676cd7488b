"""Values with their characters and numbers named by the order in which they first appear.

    Names().out(("abca", [7, 7]))  ->  equal to  Names().out(("xyzx", [3, 3]))

So the entries that a table has learned from one text apply to every text of the same pattern.
"""

from dataclasses import astuple, is_dataclass
from typing import Any

from labkit.running.trace import Call, New


class Names:
    """The names of the values seen so far.

    Args:
        renames: whether values are renamed; if not, they only become hashable.
    """

    def __init__(self, renames: bool) -> None:
        self._renames = renames
        self._numbers: dict[Any, int] = {}
        self._atoms: list[Any] = []

    def out(self, value: Any, *, learn: bool = True) -> Any:
        """Return a value in names, hashable; without `learn`, new atoms are not renamed."""
        if type(value) is str:
            if not self._renames:
                return "str", value
            return ("chars", *(self._name(atom, learn) for atom in value))
        if type(value) is int:
            return "int", self._name(value, learn) if self._renames else value
        if isinstance(value, New):
            return "new", value.name, *self._all((*value.args, *value.kwargs.items()), learn)
        if isinstance(value, Call):
            args = () if value.args is None else (*value.args, *value.kwargs.items())
            return "call", value.name, value.args is None, *self._all(args, learn)
        if isinstance(value, list | tuple):
            return type(value), *self._all(value, learn)
        if isinstance(value, dict):
            return dict, *self._all(value.items(), learn)
        if is_dataclass(value) and not isinstance(value, type):
            return type(value), *self._all(astuple(value), learn)
        return "as it is", bytes(value) if isinstance(value, bytearray) else value

    def back(self, pattern: Any) -> Any:
        """Return the value of a pattern, with this object's characters and numbers."""
        kind, *parts = pattern
        if kind == "chars":
            return "".join(map(self._atom, parts))
        if kind in ("str", "int", "as it is"):
            return self._atom(parts[0]) if kind == "int" else parts[0]
        values = [*map(self.back, parts)]
        if kind in (list, tuple, dict):
            return kind(values)
        return kind(*values)

    def _all(self, values: Any, learn: bool) -> list[Any]:
        return [self.out(value, learn=learn) for value in values]

    def _name(self, atom: Any, learn: bool) -> Any:
        if atom not in self._numbers:
            if not learn:
                return "new", atom
            self._numbers[atom] = len(self._atoms)
            self._atoms.append(atom)
        return "old", self._numbers[atom]

    def _atom(self, name: Any) -> Any:
        if type(name) is not tuple:
            return name
        kind, value = name
        return self._atoms[value] if kind == "old" else value
