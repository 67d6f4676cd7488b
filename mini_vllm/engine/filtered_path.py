"""A text path whose events are changed on their way out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.text.events import Event

if TYPE_CHECKING:
    from mini_vllm.engine.text_path import TextPath


class FilteredPath(ABC):
    """A text path around another one: the same ids and the same end, other events.

    Args:
        path: makes the events.
    """

    def __init__(self, path: "TextPath") -> None:
        self._path = path

    @property
    def ending(self) -> Ending | None:
        """Why the text ended, or None while it runs."""
        return self._path.ending

    @property
    def tokens(self) -> int:
        """How many ids were taken."""
        return self._path.tokens

    @property
    @abstractmethod
    def held(self) -> dict[str, str | bytes]:
        """What each layer holds back, by the layer's name."""

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids, up to the end of the text; return the events that are certain now."""
        return self._filter(self._path.feed(token_ids))

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text; return what was held."""
        return self._filter(self._path.finish(reason))

    @abstractmethod
    def _filter(self, events: list[Event]) -> list[Event]:
        """Return the events that are certain now; `ending` says whether these are the last."""
