"""The callers of labs 06 and 07: they share their lists, and count reads.

A caller owns its prompt, its table and its tokenizer, and goes on using them while a stream runs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, overload


def shared(items: Sequence[Any]) -> list[Any]:
    """Return a new list, which several objects can get, and which a test can change and read."""
    return [*items]


class Counted(Sequence[Any]):
    """A sequence that counts how many of its items are read.

    Attributes:
        reads: the count so far.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = [*items]
        self.reads = 0

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        items = self._items[place]
        self.reads += len(items) if isinstance(place, slice) else 1
        return items


class Pieces:
    """A tokenizer with nothing but `decode`: the bytes of each id, joined, as UTF-8."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids; an id outside of the pieces has none."""
        known = (self._pieces[id] for id in ids if 0 <= id < len(self._pieces))
        return b"".join(known).decode("utf-8", "replace")


class Feeder:
    """Feed many ids one after the other, in one call of a test.

    Args:
        stream: gets the ids.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def feed_all(self, ids: Sequence[int]) -> list[Any]:
        """Feed ids one at a time, then flush; return the output of each call."""
        return [*map(self._stream.feed, ids), self._stream.flush()]

    def push_all(self, ids: Sequence[int]) -> list[Any]:
        """Push ids one at a time; return the output of each call."""
        return [*map(self._stream.push, ids)]


class Bursts:
    """Feed bursts as iterators, which have no length and can be read once.

    Args:
        stream: gets the bursts.
        other: another stream, which is fed one id before each id of a burst is read.
    """

    def __init__(self, stream: Any, other: Any = None) -> None:
        self._stream, self._other = stream, other

    def feed_many(self, ids: Sequence[int]) -> Any:
        """Feed a burst."""
        return self._stream.feed_many(self._read(ids))

    def flush(self) -> Any:
        """End the stream."""
        return self._stream.flush()

    @property
    def held(self) -> Any:
        """What the stream holds."""
        return self._stream.held

    def _read(self, ids: Sequence[int]) -> Iterator[int]:
        for id in ids:
            if self._other is not None:
                self._other.feed_many([id])
            yield id
