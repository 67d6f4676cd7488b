"""From events to the deltas of a chat: the one rule that streams and whole messages share.

A delta has one kind of content, and at most one tool-call entry, so that even a client that reads
only `content` or `tool_calls[0]` misses nothing. A call opens with id, type, name and empty
arguments; arguments in the same list of events follow in a separate delta.

Reasoning is sent as `reasoning_content`, DeepSeek's name for it, which most clients know.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import msgspec

from mini_vllm.engine import FinishReason
from mini_vllm.engine.whole_calls import of_first_call, without_text
from mini_vllm.server.wire.white_space import WhiteSpaceStrip
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)


class DeltaFunctionCall(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The name of a function, once, or the next characters of its arguments."""

    name: str | None = None
    arguments: str


class DeltaToolCall(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A delta of one call. Clients join strings by `index`, so id, type and name are sent once."""

    index: int
    id: str | None = None
    type: str | None = None
    function: DeltaFunctionCall


class DeltaMessage(msgspec.Struct, omit_defaults=True):
    """A delta of a message. A field that it does not change is left out, not null."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[DeltaToolCall] | None = None


def new_call_id() -> str:
    """Return an id for a call to which the model gave none."""
    return f"call_{secrets.token_hex(12)}"


class MessageFold:
    """Turns the events of one choice into deltas.

    If a call breaks off in a stream, its announced part is not retracted, and the rest of the
    model's text becomes content, so nothing is lost; such a call does not make the answer end with
    `tool_calls`. A whole answer has no such call: see `mini_vllm.engine.whole_calls`.

    Args:
        named_function: the request chose a function by its name.
        parallel_tool_calls: false drops all calls but the first, as vLLM does: the model made
            these calls, but the client does not get them.
        only_calls: leave out all text, because a grammar allows only calls.
        strip: leave out the white space around calls; see `WhiteSpaceStrip`.
        new_id: makes ids for calls.

    Attributes:
        completed: how many calls were reported in full.
        strip: the filter of white space that the text passes, or None.
    """

    def __init__(
        self,
        *,
        named_function: bool = False,
        parallel_tool_calls: bool = True,
        only_calls: bool = False,
        strip: bool = False,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._named = named_function
        self._parallel = parallel_tool_calls
        self._only_calls = only_calls
        self.strip = WhiteSpaceStrip() if strip else None
        self._new_id = new_id
        self.completed = 0

    def feed(self, events: Iterable[Event], *, finished: bool) -> list[DeltaMessage]:
        """Return the deltas of the next events; adjacent events of one kind become one delta.

        Args:
            events: the next ones.
            finished: whether they are the last.
        """
        if not self._parallel:
            events = of_first_call(events)
        if self._only_calls:
            events = without_text(events)
        if self.strip is not None:
            events = self.strip.feed(events, finished=finished)
        deltas = []
        for (kind, index), run in groupby(events, kind_of):
            if kind is CallEnd:
                self.completed += len(list(run))
            elif kind is CallStart:
                deltas += [self._opening(start) for start in run if isinstance(start, CallStart)]
            else:
                text = "".join(texts_of(run))
                if text:
                    deltas.append(_delta(kind, index, text))
        return deltas

    def finish_reason(self, reason: FinishReason) -> str | None:
        """Return how the choice ended, in the API's words.

        If the request chose a function by name, OpenAI says `stop` after a call.
        """
        return reason.openai(called=self.completed > 0 and not self._named)

    def _opening(self, start: CallStart) -> DeltaMessage:
        call = DeltaToolCall(
            index=start.index,
            id=encodable(start.id) if start.id else self._new_id(),
            type="function",
            function=DeltaFunctionCall(name=encodable(start.name), arguments=""),
        )
        return DeltaMessage(tool_calls=[call])


def kind_of(event: Event) -> tuple[type[Event], int]:
    """Return the kind of delta that an event belongs to, and the index of its call."""
    if isinstance(event, TextDelta | Malformed):
        return TextDelta, 0
    if isinstance(event, ReasoningDelta):
        return ReasoningDelta, 0
    return type(event), event.index


def texts_of(events: Iterable[Event]) -> Iterator[str]:
    """Yield the texts of events."""
    for event in events:
        if isinstance(event, Malformed):
            yield event.raw
        elif isinstance(event, TextDelta | ReasoningDelta | ArgsDelta):
            yield event.text


def _delta(kind: type[Event], index: int, text: str) -> DeltaMessage:
    if kind is TextDelta:
        return DeltaMessage(content=text)
    if kind is ReasoningDelta:
        return DeltaMessage(reasoning_content=text)
    call = DeltaToolCall(index=index, function=DeltaFunctionCall(arguments=text))
    return DeltaMessage(tool_calls=[call])


def encodable(text: str) -> str:
    """Return a name with each lone surrogate (the model wrote `"\\ud800"`) replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
