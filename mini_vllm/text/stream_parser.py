"""The machine for all tool-call formats and reasoning splitters: states are data.

A `Format` is a table of states. Each state handles the text between markers in its own way, and
says where each marker leads. The kinds of states are in `states`. Text that could still turn out to
be plain text is kept raw, so that nothing is ever lost: until its call is announced it may become
text again, afterwards it becomes an explicit `Malformed`.

Most text stays within a state: it is emitted, or kept until the state ends, and its step depends on
the call only by the call's number. Such steps are remembered (`memory`). A step that uses more of
the call, or leads to another state, is computed each time: the parser notices it by the methods
that the states call.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mini_vllm.text.copyable import Copyable
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.memory import LONGEST_PIECE, MEMORY, Machine

# States pass the rest of a text on by copying it, so a long text is fed to them in parts.
_WINDOW = 4096
# A state, its scratch, the number of the call, and whether text is kept.
Position = tuple["State", int, str, bool, Hashable, str, int, bool]


class State(Protocol):
    """One kind of place in a format. Positions contain states, so a state is equal only to itself.

    Streams share a state: its knowledge of one stream is in the parser's `scratch` or `call`.
    """

    def take(self, parser: "StreamParser", text: str) -> str:
        """Take non-empty text; return the part that another state should take."""
        ...

    def waiting(self, parser: "StreamParser") -> str:
        """Return the text that was taken but neither emitted nor kept, by default `""`."""
        return ""

    def end(self, parser: "StreamParser") -> bool:
        """Return whether a text may end here, by default False; if so, emit the `waiting` text."""
        return False


@dataclass(frozen=True, slots=True)
class On:
    """The effect of a marker.

    Attributes:
        next: the state that follows.
        do: `open` if a call may begin here; `end` if the call is complete; `close` if markup
            without a call ends; `text` or `reasoning` if the kept text turns out to be text or
            reasoning; else `""`.
        keep: whether the next state also takes the marker.
    """

    next: str
    do: str = ""
    keep: bool = False


@dataclass(frozen=True)
class Format:
    """A table of states.

    Attributes:
        name: the name that users write.
        states: the states by name.
        start: the state in which a text begins.
        home: the state after text that only looked like a call.
        broken: the state that skips the rest of a malformed call.
        aliases: other names, which vLLM and SGLang use.
        ends_reasoning: the openers that end reasoning which the format's models leave open; empty
            if such an opener is only a draft in these models' reasoning, or if the format has no
            opener of its own.
        marks_reasoning: whether the format also separates reasoning from the answer, so that its
            parser is needed even if the request has no tools.
    """

    name: str
    states: Mapping[str, State]
    start: str = "content"
    home: str = "content"
    broken: str = "broken"
    aliases: tuple[str, ...] = ()
    ends_reasoning: tuple[str, ...] = ()
    marks_reasoning: bool = False


@dataclass(slots=True)
class Scratch(Copyable):
    """A stream's place within its present state; each state begins with a fresh one.

    It is part of the position, so its attributes never change in place. A state may store a
    mutable, unhashable object in `json`: then the stream has no position until the state ends.

    Attributes:
        marker: the state of an automaton of markers.
        pending: text that the state takes again, together with the next text.
        begun: whether the value here has begun.
        json: the place within a value.
        text: raw text that is kept and decides the next step, so it is short.
    """

    marker: int = 0
    pending: str = ""
    begun: bool = False
    json: Any = None
    text: str = ""


@dataclass(slots=True)
class Call(Copyable):
    """A stream's knowledge of its present call, which all states share.

    Attributes:
        name: the function's name.
        announced: whether the call can no longer become text again.
        parameter: the name of the present parameter.
        parameters: how many parameters were written, if the parser itself writes the arguments
            object; else None.
        progress: the place within the call, for a state that other states interrupt.
        reason: why the call is malformed.
    """

    name: str = ""
    announced: bool = False
    parameter: str = ""
    parameters: int | None = None
    progress: Any = None
    reason: str = ""


class StreamParser(Machine):
    """Turns text into events.

    `feed` returns the events that are certain now, `flush` returns the rest; afterwards the parser
    is fresh. The way a text is cut into pieces never changes the events, once neighbouring deltas
    of one kind are joined.

    Attributes:
        events: the events of the present feed so far; states append to it.
        calls: how many calls have ended, complete or malformed.
        completed: how many calls were complete.
        cut: whether the text was cut off, for states that need to know at its end.
        repeatable: whether the steps since the parser was set to its position depend on that
            position alone, and only change the position, emit events and keep text.
        new_parts: the text that these steps have kept, if they were `repeatable`.

    Args:
        format: the table.
        types: for each function and parameter the JSON types that its schema allows, for formats
            that write arguments without types.
        start: the state in which a text begins, by default the format's own.
    """

    _shared = Machine._shared | {"format", "_types", "_start", "state"}

    def __init__(
        self,
        format: Format,
        *,
        types: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
        start: str | None = None,
    ) -> None:
        self.format = format
        self._types = types or {}
        self._start = format.states[start or format.start]
        self._reset()

    def _reset(self) -> None:
        self.state = self._start
        self.scratch = Scratch()
        self.calls = 0
        self.completed = 0
        self.cut = False
        self._call = Call()
        # The text kept in earlier states, and in the present state.
        self._raw: list[str] = []
        self._parts: list[str] = []
        self.events: list[Event] = []
        self.repeatable = True
        self.new_parts: list[str] = []
        self._node = MEMORY.node(self.position)

    @property
    def held(self) -> str:
        """The text that was fed but not emitted, since its meaning is still open."""
        self._settle()
        scratch = self.scratch
        return "".join([*self._raw, scratch.text, *self._parts, self.state.waiting(self)])

    @property
    def position(self) -> Position | None:
        """The value that a `repeatable` step depends on, or None if it is not hashable."""
        scratch = self.scratch
        if scratch.json.__hash__ is None:
            return None
        # Arguments contain the call's number, and replace the text kept before them.
        call = self.calls if self._call.announced else 0
        return (
            self.state, scratch.marker, scratch.pending, scratch.begun, scratch.json, scratch.text,
            call, bool(self._raw or self._parts),
        )  # fmt: skip

    @position.setter
    def position(self, position: Position) -> None:
        self.state = position[0]
        self.scratch = Scratch(*position[1:-2])
        self.repeatable = True
        self.new_parts = []

    @property
    def call(self) -> Call:
        """The present call, to read or to change. A step that uses it is not `repeatable`."""
        self.repeatable = False
        return self._call

    def schema_types(self) -> frozenset[str] | None:
        """Return the JSON types that the present parameter's schema allows, or None without one."""
        call = self.call
        return self._types.get(call.name, {}).get(call.parameter)

    def offers(self, name: str) -> bool:
        """Return whether the request has a function of that name, or lists no functions."""
        self.repeatable = False
        return not self._types or name in self._types

    def feed(self, text: str) -> list[Event]:
        """Feed the next piece of text; return the events that are certain now."""
        known = self._node.get(text)
        if known is None:
            return self._feed_new(text)
        events, self._node = known
        return [*events]

    def _feed_new(self, text: str) -> list[Event]:
        """Feed a piece that is new in this position, or whose step keeps text."""
        known = self._node.keeping.get(text)
        if known is not None:
            output, part, self._node = known
            self._parts.append(part)
            return [*output]
        events: list[Event] = []
        before = self.leave()
        self.step(text, events)
        part = ""
        if before is not None:
            part = "".join(self.new_parts)
            before = before if self.repeatable else None
        self._node = MEMORY.learn(before, text, (*events,), self.position, part)
        return events

    def step(self, text: str, events: list[Event]) -> None:
        """Do the work of `feed` without looking the step up; the parser has left its node.

        Args:
            text: the next piece.
            events: the list to which the step appends its events.
        """
        own, self.events = self.events, events
        if len(text) <= _WINDOW:
            self.pour(text)
        else:
            for start in range(0, len(text), _WINDOW):
                self.pour(text[start : start + _WINDOW])
        self.events = own

    def pour(self, text: str) -> None:
        """Feed a text to the states, one after another."""
        while text:
            text = self.state.take(self, text)

    def flush(self, *, cut: bool = False) -> list[Event]:
        """End the text; return the rest of the events. A second flush returns an empty list.

        Args:
            cut: whether the text was cut off, by a length limit or an abort. If so, a call that
                lacks only its closing marker is `Malformed`. If the model itself has ended the
                text, such a call is complete.
        """
        self.leave()
        self.cut = cut
        while not self.state.end(self):
            self.pour(self.fail("the text ended inside the call"))
        self._release()
        events = self.events
        self._reset()
        return events

    def hold(self, text: str) -> None:
        """Keep text raw: it is neither emitted nor forgotten."""
        self._hold_scratch()
        self._raw.append(text)

    def note(self, text: str) -> None:
        """Keep text raw; while it is short, it is part of the position."""
        if len(self.scratch.text) + len(text) <= LONGEST_PIECE:
            self.scratch.text += text
        else:
            self.hold(text)

    def keep(self, text: str) -> None:
        """Keep raw text that decides nothing until `recall`."""
        self._parts.append(text)
        self.new_parts.append(text)

    def recall(self) -> str:
        """Return the text of `keep` in this state. A step that calls this is not `repeatable`."""
        self.repeatable = False
        return "".join(self._parts)

    def go(self, name: str) -> None:
        """Change the state."""
        self._hold_scratch()
        self.state = self.format.states[name]
        self.scratch = Scratch()

    def follow(self, on: On, marker: str) -> str:
        """Go to the state that a marker leads to; return the marker if that state takes it."""
        if on.do == "open":
            self._release()
        if on.do == "end":
            self.complete_call()
        elif on.do == "close":
            self._forget()
        elif on.do in ("text", "reasoning"):
            self._release(TextDelta if on.do == "text" else ReasoningDelta)
        elif not on.keep:
            self.hold(marker)
        self.go(on.next)
        return marker if on.keep else ""

    def announce(self, name: str, id: str | None = None) -> None:
        """Start a call: from now on it cannot become text again."""
        call = self.call
        call.name, call.announced = name, True
        self.events.append(CallStart(self.calls, id, name))
        self._forget()

    def arguments(self, text: str) -> None:
        """Emit the next characters of the arguments."""
        if text:
            self.events.append(ArgsDelta(self.calls, text))
            if self._raw or self._parts:
                self._forget()
            self.scratch.text = ""

    def complete_call(self) -> None:
        """End a call whose arguments are complete."""
        parameters = self.call.parameters
        if parameters is not None:
            self.arguments("}" if parameters else "{}")
        self.events.append(CallEnd(self.calls))
        self.completed += 1
        self._forget()
        self.calls += 1
        self._call = Call()

    def fail(self, reason: str, rest: str = "") -> str:
        """Give up the call before `rest`; return the text that the next state should take."""
        rest = self.state.waiting(self) + rest
        if self.call.announced:
            self._call.reason = reason
            self.go(self.format.broken)
        else:
            self._release()
            self._call = Call()
            self.go(self.format.home)
        return rest

    def malformed(self) -> None:
        """End a call that cannot be completed: emit all of its kept text as `Malformed`."""
        self._hold_scratch()
        self.events.append(Malformed(self.calls, "".join(self._raw), self._call.reason))
        self._raw.clear()
        self.calls += 1
        self._call = Call()

    def _hold_scratch(self) -> None:
        """Move the text that was kept in this state to the raw text."""
        self.repeatable = False
        scratch = self.scratch
        if scratch.text or self._parts:
            self._raw += [scratch.text, *self._parts]
            scratch.text = ""
            self._parts.clear()
            self.new_parts.clear()

    def _forget(self) -> None:
        """Drop the kept text: it was emitted, unchanged or in another form."""
        self.repeatable = False
        self.scratch.text = ""
        self._parts.clear()
        self.new_parts.clear()
        self._raw.clear()

    def _release(self, kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> None:
        """Emit the kept text."""
        self._hold_scratch()
        text = "".join(self._raw)
        self._raw.clear()
        if text:
            self.events.append(kind(text))
