"""A text path whose answers never end in U+FFFD.

What a model leaves unfinished, such as the emoji that `max_tokens` cut in two, ends the answer as
U+FFFD. Some servers rather leave it out. It is an option, because a model may mean the character.
"""

from collections.abc import Iterable

from mini_vllm.engine.text_path import MakeTextPath, TextPath
from mini_vllm.finish_reason import Ending, FinishReason
from mini_vllm.text.events import Event, TextDelta

_REPLACEMENT = "\ufffd"


class WithoutReplacementRun:
    """A text path that holds U+FFFD at the end of its text, and drops it if the text ends there.

    Text or an event that follows lets it go. Reasoning and arguments stay as they are.

    Args:
        path: makes the events.
    """

    def __init__(self, path: TextPath) -> None:
        self._path = path
        self._run = ""

    @property
    def ending(self) -> Ending | None:
        """Why the text ended, or None while it runs."""
        return self._path.ending

    @property
    def tokens(self) -> int:
        """How many ids were taken."""
        return self._path.tokens

    @property
    def held(self) -> dict[str, str | bytes]:
        """What each layer holds back, and the run."""
        return {**self._path.held, "replacements": self._run}

    def feed(self, token_ids: Iterable[int]) -> list[Event]:
        """Take ids; return the events that are certain now."""
        return self._without_run(self._path.feed(token_ids))

    def finish(self, reason: FinishReason) -> list[Event]:
        """End the text; return what was held, but for a run of U+FFFD at its end."""
        return self._without_run(self._path.finish(reason))

    def _without_run(self, events: list[Event]) -> list[Event]:
        kept: list[Event] = []
        for event in events:
            text = self._run + (event.text if isinstance(event, TextDelta) else "")
            shown = text.rstrip(_REPLACEMENT) if isinstance(event, TextDelta) else text
            self._run = text[len(shown) :]
            if shown:
                kept.append(TextDelta(shown))
            if not isinstance(event, TextDelta):
                kept.append(event)
        if self.ending is not None:
            self._run = ""
        return kept


def without_replacement_runs(make_text_path: MakeTextPath) -> MakeTextPath:
    """Return what makes the same text paths, without U+FFFD at the end of their text."""
    return lambda request, prompt: WithoutReplacementRun(make_text_path(request, prompt))
