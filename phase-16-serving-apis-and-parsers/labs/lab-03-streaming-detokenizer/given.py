"""A reader of a detokenizer: it feeds many bytes at once."""

from collections.abc import Iterable
from typing import Any


class Reader:
    """A reader of one detokenizer.

    Args:
        detokenizer: the detokenizer.
    """

    def __init__(self, detokenizer: Any) -> None:
        self._detokenizer = detokenizer

    def feed_all(self, ids: Iterable[int]) -> list[Any]:
        """Feed ids one at a time; return the output for each."""
        return [*map(self._detokenizer.feed, ids)]

    def changes_of_held(self, ids: Iterable[int]) -> list[int]:
        """Feed ids one at a time; return the ids that changed `held`."""
        changes, before = [], self._detokenizer.held
        for token_id in ids:
            self._detokenizer.feed(token_id)
            if self._detokenizer.held != before:
                changes.append(token_id)
            before = self._detokenizer.held
        return changes

    def feed_silently(self, ids: Iterable[int], ends: bool) -> int:
        """Feed ids one at a time, each followed by a flush if `ends`, and read `held`; return how
        many characters were emitted.
        """
        count = 0
        for token_id in ids:
            count += len(self._detokenizer.feed(token_id) or "")
            if ends:
                count += len(self._detokenizer.flush() or "")
        for _ in range(10):
            self._detokenizer.held  # noqa: B018
        return count
