"""A text path whose answers never end in U+FFFD.

An incomplete character, such as an emoji that `max_tokens` cut in two, ends the answer as U+FFFD.
Some servers leave it out instead. This is an option, because a model may intend the character.
"""

from mini_vllm.engine.text_path import FilteredPath, MakeTextPath, TextPath
from mini_vllm.text.events import Event, TextDelta

_REPLACEMENT = "\ufffd"


class WithoutReplacementRun(FilteredPath):
    """A text path that holds U+FFFD at the end of its text, and drops it if the text ends there.

    Text or an event that follows releases it. Reasoning and arguments pass through unchanged.

    Args:
        path: makes the events.
    """

    def __init__(self, path: TextPath) -> None:
        super().__init__(path)
        self._run = ""

    @property
    def held(self) -> dict[str, str | bytes]:
        """The text or bytes that each layer holds, and the held run."""
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
    """Return a function that makes the same text paths without U+FFFD at the end of their text."""
    return lambda request, prompt: WithoutReplacementRun(make_text_path(request, prompt))
