"""Calls for a reader that gets the answer whole: only complete calls.

A stream announces a call before it is known whether the call will be completed, and never retracts
that. In an answer that is sent whole, a call that breaks off becomes text.

`complete_calls` applies this to the events of any text path, which lack the call's opening marker.
`WholeCalls` reads the calls from the text itself, and so keeps the marker.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from mini_vllm.engine.text_path import FilteredPath, TextPath
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.stream_parser import StreamParser

_WORDS = re.compile(r"[\w\s]*")


def complete_calls(events: Iterable[Event], *, first_only: bool = False) -> list[Event]:
    """Return all events of an answer, with each call that broke off as text.

    Args:
        events: of the answer, from its first to its last.
        first_only: leave out every call after the first that begins.
    """
    events = [*of_first_call(events)] if first_only else [*events]
    complete = [event.index for event in events if isinstance(event, CallEnd)]
    output: list[Event] = []
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta):
            output.append(event)
        elif event.index in complete:
            output.append(replace(event, index=complete.index(event.index)))
        elif text := _text_of(event):
            output.append(TextDelta(text))
    return output


def of_first_call(events: Iterable[Event]) -> Iterator[Event]:
    """Return the events without those of later calls."""
    return (event for event in events if getattr(event, "index", 0) == 0)


def without_text(events: Iterable[Event]) -> list[Event]:
    """Return the events of calls and reasoning, without the text around and after calls.

    For an answer that may only have calls: its text can only be the markers of a call, or the rest
    of a call that breaks off.
    """
    return [event for event in events if not isinstance(event, TextDelta | Malformed)]


def _text_of(event: CallStart | ArgsDelta | CallEnd | Malformed) -> str:
    """Return the characters that an event of a call that breaks off has."""
    if isinstance(event, CallStart):
        return event.name
    return event.text if isinstance(event, ArgsDelta) else getattr(event, "raw", "")


class WholeCalls(FilteredPath):
    """A text path whose calls are all complete; their indices begin at 0.

    Args:
        path: makes the text that has the calls.
        parser: of the model's tool-call format.
        first_only: leave out every call after the first that begins, even if it breaks off.
    """

    def __init__(self, path: TextPath, parser: StreamParser, *, first_only: bool = False) -> None:
        super().__init__(path)
        self._parser = parser
        self._first_only = first_only
        self._ended = False
        self._calls = 0
        # The text since the last event, or since the marker that opens the present call.
        self._raw: list[str] = []
        self._call: list[Event] = []

    @property
    def held(self) -> dict[str, str | bytes]:
        """The text or bytes that each layer holds, by the layer's name."""
        return {**self._path.held, "calls": "".join(self._raw) if self._call else self._parser.held}

    def _filter(self, events: list[Event]) -> list[Event]:
        output: list[Event] = []
        for event in events:
            if not isinstance(event, TextDelta):
                output.append(event)
                continue
            # No format ends a call and begins another without punctuation. A text with punctuation
            # is fed character by character, so that each event shows where a call begins and ends.
            for piece in [event.text] if _WORDS.fullmatch(event.text) else event.text:
                self._raw.append(piece)
                self._take(self._parser.feed(piece), output)
        if self.ending is not None and not self._ended:
            self._ended = True
            self._take(self._parser.flush(cut=self.ending.reason.cuts), output)
        return output

    def _take(self, events: list[Event], output: list[Event]) -> None:
        for place, event in enumerate(events):
            if self._first_only and getattr(event, "index", 0) > 0:
                if isinstance(event, CallEnd | Malformed):
                    self._cut(events[place + 1 :])
            elif isinstance(event, CallStart | ArgsDelta):
                self._call.append(replace(event, index=self._calls))
            elif isinstance(event, CallEnd):
                output += (*self._call, CallEnd(self._calls))
                self._calls += 1
                self._cut(events[place + 1 :])
            elif isinstance(event, Malformed):
                output.append(TextDelta(self._cut(events[place + 1 :])))
            else:
                output.append(event)
                self._skip(event)

    def _skip(self, event: TextDelta | ReasoningDelta) -> None:
        """Drop the characters up to the end of the emitted text."""
        _, _, rest = "".join(self._raw).partition(event.text)
        self._raw = [rest] if rest else []

    def _cut(self, later: list[Event]) -> str:
        """Return the characters of the present call; keep the characters after it."""
        texts = [event.text for event in later if isinstance(event, TextDelta | ReasoningDelta)]
        rest = "".join(texts) + self._parser.held
        raw = "".join(self._raw)
        self._raw, self._call = [rest] if rest else [], []
        return raw[: len(raw) - len(rest)]
