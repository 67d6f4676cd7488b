"""A text path whose answers never end in U+FFFD.

What a model leaves unfinished, such as the emoji that `max_tokens` cut in two, ends the answer as
U+FFFD. Some servers rather leave it out. It is an option, because a model may mean the character.
"""

from mini_vllm.engine.text_path import FilteredPath, MakeTextPath, TextPath
from mini_vllm.text.events import Event, TextDelta

_REPLACEMENT = "\ufffd"


class WithoutReplacementRun(FilteredPath):
    """A text path that holds U+FFFD at the end of its text, and drops it if the text ends there.

    Text or an event that follows lets it go. Reasoning and arguments stay as they are.

    Args:
        path: makes the events.
    """

    def __init__(self, path: TextPath) -> None:
        super().__init__(path)
        self._run = ""

    @property
    def held(self) -> dict[str, str | bytes]:
        """What each layer holds back, and the run."""
        return {**self._path.held, "replacements": self._run}

    def _filter(self, events: list[Event]) -> list[Event]:
        output: list[Event] = []
        for event in events:
            text = self._run + (event.text if isinstance(event, TextDelta) else "")
            shown = text.rstrip(_REPLACEMENT) if isinstance(event, TextDelta) else text
            self._run = text[len(shown) :]
            if shown:
                output.append(TextDelta(shown))
            if not isinstance(event, TextDelta):
                output.append(event)
        if self.ending is not None:
            self._run = ""
        return output


def without_replacement_runs(make_text_path: MakeTextPath) -> MakeTextPath:
    """Return what makes the same text paths, without U+FFFD at the end of their text."""
    return lambda request, prompt: WithoutReplacementRun(make_text_path(request, prompt))
