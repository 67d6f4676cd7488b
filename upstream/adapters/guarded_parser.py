"""A parser of this course as an engine needs it: its events merged, its exceptions caught."""

import logging
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)


@dataclass
class ParsedPiece:
    """The content of some events.

    Attributes:
        reasoning, text: joined; the raw text of a `Malformed` is text.
        calls: for each index `arguments`, the new ones; if the call begins here, `name` and `id`.
        has_text: whether there was a `TextDelta`.
    """

    reasoning: str = ""
    text: str = ""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    has_text: bool = False


class GuardedParser:
    """One stream of a parser.

    If the parser raises an exception, or returns other things than events, the log has one line,
    and all source that the parser has not emitted is text from then on.

    Args:
        make: returns a fresh parser, or None if all of the stream is text. `feed(text)` and
            `flush()` of a parser return events, `held` is the source since the last event.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._parser: Any = None
        self._calls = 0
        # The source since the last event. To read `held` after each piece may take quadratic time.
        self._unread: list[str] = []
        self._passes_on = False

    def feed(self, text: str) -> ParsedPiece:
        """Take the next piece of the stream."""
        if self._passes_on:
            return ParsedPiece(text=text, has_text=bool(text))
        self._unread.append(text)
        return self._guarded(lambda parser: parser.feed(text))

    def flush(self) -> ParsedPiece:
        """End the stream: return the held text."""
        if self._passes_on or self._parser is None:
            return ParsedPiece()
        return self._guarded(lambda parser: parser.flush())

    def parse(self, text: str) -> ParsedPiece:
        """Return the content of a whole text."""
        piece, rest = self.feed(text), self.flush()
        for index, call in rest.calls.items():
            if index in piece.calls:
                piece.calls[index]["arguments"] += call["arguments"]
            else:
                piece.calls[index] = call
        piece.reasoning += rest.reasoning
        piece.text += rest.text
        return piece

    def _guarded(self, step: Callable[[Any], Any]) -> ParsedPiece:
        try:
            if self._parser is None:
                self._parser = self._make()
            if self._parser is None:
                return self._rest()
            events = list(step(self._parser))
            piece = self._merged(events)
            if events:
                self._unread = [str(self._parser.held)]
        except Exception as error:
            self._log(error)
            return self._rest()
        return piece

    def _rest(self) -> ParsedPiece:
        """Pass on all source that has not been emitted, and from now on every piece."""
        self._passes_on = True
        text = "".join(self._unread)
        return ParsedPiece(text=text, has_text=bool(text))

    def _log(self, error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        # An error may have any text, also one that cannot be made.
        text = " ".join("".join(traceback.format_exception_only(error)).split())
        logging.getLogger(__name__).error(
            "The parser raised %.200s (line %s: %s). The rest of the answer is passed on unparsed.",
            text, frame.lineno, frame.line,
        )  # fmt: skip

    def _merged(self, events: Iterable[Any]) -> ParsedPiece:
        piece = ParsedPiece()
        for event in events:
            if isinstance(event, TextDelta):
                piece.text += event.text
                piece.has_text = True
            elif isinstance(event, ReasoningDelta):
                piece.reasoning += event.text
            elif isinstance(event, Malformed):
                piece.text += event.raw
            elif isinstance(event, ToolCall):
                self._begin(piece, event.index, event.name, None)
                piece.calls[event.index]["arguments"] += event.arguments
            elif isinstance(event, CallStart):
                self._begin(piece, event.index, event.name, event.id)
            elif isinstance(event, ArgsDelta):
                if not 0 <= event.index < self._calls:
                    raise ValueError(f"arguments of call {event.index}, which has not begun")
                call = piece.calls.setdefault(event.index, {"arguments": ""})
                call["arguments"] += event.text
            elif not isinstance(event, CallEnd):
                raise TypeError(f"{event!r} is not an event")
        return piece

    def _begin(self, piece: ParsedPiece, index: int, name: str, id: str | None) -> None:
        if index != self._calls:
            raise ValueError(f"call {index} begins, but the next call is {self._calls}")
        self._calls += 1
        piece.calls[index] = {"name": name, "id": id, "arguments": ""}
