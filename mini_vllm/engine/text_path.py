"""The text path, which turns the ids of one choice into events, and a base class for wrappers.

An engine accepts any `MakeTextPath` function; `TextPathFactory` is its default.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mini_vllm.engine.request import Request
from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.text.events import Event


class TextPath(Protocol):
    """Turns the ids of one choice into events, and finds its end, as `TextPipeline` does.

    The engine counts `max_tokens` and calls `finish`; the text path finds every other end, among
    the ids or in the text.
    """

    @property
    def ending(self) -> Ending | None:
        """Why the text ended, or None while it runs."""
        ...

    @property
    def tokens(self) -> int:
        """How many ids were taken."""
        ...

    @property
    def held(self) -> dict[str, str | bytes]:
        """The text or bytes that each layer holds, by the layer's name."""
        ...

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids, up to the end of the text; return the events that are certain now."""
        ...

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text; return the events of the held text."""
        ...


MakeTextPath = Callable[[Request, Sequence[int]], TextPath]


class FilteredPath(TextPath):
    """A text path around another text path: the same ids and the same end, but other events.

    Args:
        path: makes the events.
    """

    def __init__(self, path: TextPath) -> None:
        self._path = path

    @property
    def ending(self) -> Ending | None:
        """Why the text ended, or None while it runs."""
        return self._path.ending

    @property
    def tokens(self) -> int:
        """How many ids were taken."""
        return self._path.tokens

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids, up to the end of the text; return the events that are certain now."""
        return self._filter(self._path.feed(token_ids))

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text; return the events of the held text."""
        return self._filter(self._path.finish(reason))

    @abstractmethod
    def _filter(self, events: list[Event]) -> list[Event]:
        """Return the events that are certain now; `ending` says whether these are the last."""
