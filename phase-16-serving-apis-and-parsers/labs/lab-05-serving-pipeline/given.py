"""A caller, and a detokenizer of words."""

from typing import Any


class Words:
    """A detokenizer whose ids are words; it holds no bytes."""

    held = b""

    def __init__(self, words: dict[int, str]) -> None:
        self._words = words

    def feed(self, token_id: int) -> str:
        """Return the word of an id, or ""."""
        return self._words.get(token_id, "")

    def flush(self) -> str:
        """Return ""."""
        return ""


class Caller:
    """The caller of a pipeline. It keeps each list and each dictionary, and adds to each."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._lists: list[list[Any]] = []
        self._dictionaries: list[dict[str, Any]] = []

    def feed(self, token_id: int) -> Any:
        """Feed one token; return the events as they were at that time."""
        return self._keep(self._pipeline.feed(token_id))

    def finish(self) -> Any:
        """Finish; return the events as they were at that time."""
        return self._keep(self._pipeline.finish())

    @property
    def lists(self) -> list[list[Any]]:
        """All lists as they are now."""
        return [events[:] for events in self._lists]

    @property
    def dictionaries(self) -> list[dict[str, Any]]:
        """What `held` was after each call, as it is now; the caller added the call's number."""
        return [dict(held) for held in self._dictionaries]

    def _keep(self, events: Any) -> Any:
        held = self._pipeline.held
        if isinstance(held, dict):
            held["the caller's"] = len(self._dictionaries)
        self._dictionaries.append(held)
        if not isinstance(events, list):
            return events
        before = events[:]
        events.append("the caller's")
        self._lists.append(events)
        return before
