"""The items of the latest responses, so that a client may refer to them by their ids."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_MOST_BYTES = 16 << 20

Item = Mapping[str, Any]


class ItemStore:
    """Keeps the items of the latest responses in memory; older responses are dropped.

    The ids of items are random, so only the client that received a response can refer to it.

    Args:
        most: how many responses; 0 keeps none.
        most_bytes: how many bytes their items may have, as JSON.
    """

    def __init__(self, most: int, most_bytes: int = _MOST_BYTES) -> None:
        self.most = most
        self._most_bytes = most_bytes
        self._items: dict[str, Item] = {}
        # The ids and the size of each response, the oldest first.
        self._responses = deque[tuple[list[str], int]]()
        self._bytes = 0

    def add(self, items: Sequence[Item]) -> None:
        """Keep the items of a response, which do not change any more."""
        size = len(msgspec.json.encode(items))
        self._items.update((item["id"], item) for item in items)
        self._responses.append(([item["id"] for item in items], size))
        self._bytes += size
        while self._bytes > self._most_bytes or len(self._responses) > self.most:
            ids, size = self._responses.popleft()
            self._bytes -= size
            for id in ids:
                del self._items[id]

    def get(self, id: str) -> Item | None:
        """Return the item with an id, or None."""
        return self._items.get(id)
