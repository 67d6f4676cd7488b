"""What turns the ids of one choice into events, and a base for those around another.

An engine takes any function like `MakeTextPath`; `TextPathFactory` is its own.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from mini_vllm.engine.request import Request
from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.text.events import Event


class TextPath(Protocol):
    """Turns the ids of one choice into events, and finds its end, as `TextPipeline` does.

    The engine counts `max_tokens` and calls `finish`; every other end among the ids or in the text
    is for the text path to find.
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
        """What each layer holds back, by the layer's name."""
        ...

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids, up to the end of the text; return the events that are certain now."""
        ...

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text; return what was held."""
        ...


MakeTextPath = Callable[[Request, Sequence[int]], TextPath]


class FilteredPath(TextPath):
    """A text path around another one: the same ids and the same end, other events.

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
        """End the text; return what was held."""
        return self._filter(self._path.finish(reason))

    @abstractmethod
    def _filter(self, events: list[Event]) -> list[Event]:
        """Return the events that are certain now; `ending` says whether these are the last."""
