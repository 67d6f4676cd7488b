"""The slots of a batch: columns of equal length that move together.

Engines keep what belongs to a sequence in several arrays, one entry a slot. When a sequence ends,
the rest move up, and each array has to follow; one that was forgotten hands a request the state of
another. Here the columns are known by name and move in one call.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def build_batch_mapping(finished: Sequence[bool]) -> list[int]:
    """Return where each row goes: -1 for a finished one, else its place among those that stay."""
    mapping, place = [], 0
    for is_finished in finished:
        mapping.append(-1 if is_finished else place)
        place += not is_finished
    return mapping


def compact_vector(mapping: Sequence[int], rows: list[T]) -> None:
    """Move the rows to where the mapping says, in place; drop those that go to -1.

    Raises:
        ValueError: there are more or fewer rows than the mapping has; nothing was moved.
    """
    if len(mapping) != len(rows):
        raise ValueError(f"a mapping of {len(mapping)} rows does not fit {len(rows)} rows")
    for row, place in zip(rows, mapping, strict=True):
        if place >= 0:
            rows[place] = row
    del rows[sum(place >= 0 for place in mapping) :]


class SlotTable:
    """Rows of named columns.

    Args:
        *names: the columns.
    """

    def __init__(self, *names: str) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in names}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def column(self, name: str) -> list[Any]:
        """Return a column, the same list each time."""
        return self._columns[name]

    def add_column(self, name: str, values: Sequence[Any]) -> None:
        """Add a column.

        Raises:
            ValueError: it has not one value for each row, or the name is taken.
        """
        if name in self._columns:
            raise ValueError(f"there is a column {name!r} already")
        if self._columns and len(values) != len(self):
            raise ValueError(f"column {name!r} has {len(values)} values for {len(self)} rows")
        self._columns[name] = list(values)

    def add_row(self, **values: Any) -> None:
        """Add a row at the end.

        Raises:
            ValueError: it has not one value for each column; nothing was added.
        """
        if values.keys() != self._columns.keys():
            raise ValueError(f"a row needs {sorted(self._columns)}, not {sorted(values)}")
        for name, value in values.items():
            self._columns[name].append(value)

    def compact(self, finished: Sequence[bool]) -> list[int]:
        """Drop the finished rows from every column; return where each row went.

        Raises:
            ValueError: `finished` has not one value for each row; nothing was moved.
        """
        if len(finished) != len(self):
            raise ValueError(f"{len(finished)} marks do not fit {len(self)} rows")
        mapping = build_batch_mapping(finished)
        for rows in self._columns.values():
            compact_vector(mapping, rows)
        return mapping
