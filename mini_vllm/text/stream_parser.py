"""The machine behind all tool-call formats and reasoning splitters: states are data.

A `Format` is a table of states; each state says what it does with the text between markers, and
where each marker leads. The kinds of states are in `states`. What is taken in but could still turn
out to be plain text is kept raw, so that nothing is ever lost: until a call is announced it may
become text again, afterwards an explicit `Malformed`.

Most text stays within a state: it is emitted, or kept until the state ends, and all that matters of
the call is its number. Such steps are remembered (`memory`). A step that uses more of the call, or
leads to another state, is worked out: the parser notes which by what the states call.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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

# States pass the rest of a text on by copying it, so a long text is given to them in parts.
_WINDOW = 4096
# A state, its scratch, the number of the call, and whether text is kept.
Position = tuple["State", int, str, bool, Hashable, str, int, bool]


class State(Protocol):
    """One kind of place in a format. Positions have it in them, so it is equal to itself alone.

    Streams share it: what it knows of one of them is in the parser's `scratch`, or in its `call`.
    """

    def take(self, parser: "StreamParser", text: str) -> str:
        """Take non-empty text; return what another state should take."""
        ...

    def waiting(self, parser: "StreamParser") -> str:
        """Return what was taken but neither emitted nor kept; by default nothing is."""
        return ""

    def end(self, parser: "StreamParser") -> bool:
        """Return whether a text may end here, by default False; if so, emit what waits."""
        return False


@dataclass(frozen=True, slots=True)
class On:
    """Where a marker leads.

    Attributes:
        next: the state that follows.
        do: `open` where a call may begin; `end` where it is complete; `close` where markup
            without a call ends; `text` or `reasoning` where what was kept turns out to be that;
            or nothing.
        keep: let the next state take the marker too.
    """

    next: str
    do: str = ""
    keep: bool = False


@dataclass(frozen=True)
class Format:
    """A table of states.

    Attributes:
        name: what users call it.
        states: by name.
        start: the state in which a text begins.
        home: the state to go on in after something that only looked like a call.
        broken: the state that skips the rest of a malformed call.
        aliases: what vLLM and SGLang call it, where that is something else.
        ends_reasoning: the openers that end reasoning which its models leave open; empty where
            such an opener is a draft of theirs, or where the format has no opener of its own.
        marks_reasoning: whether it tells reasoning and answer apart too, so that its parser is
            needed where nothing can be called.
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
class Scratch:
    """Where in its present state a stream is: made anew with each state.

    It is part of the position, so its attributes never change in place. A state may put something
    into `json` that does and is not hashable: then there is no position until the state ends.

    Attributes:
        marker: the state of an automaton of markers.
        pending: text that the state takes again with what comes next.
        begun: whether the value here has begun.
        json: where in a value the text is.
        text: kept raw, and decides what comes next, so it is short.
    """

    marker: int = 0
    pending: str = ""
    begun: bool = False
    json: Any = None
    text: str = ""


@dataclass(slots=True)
class Call:
    """What a stream knows of its present call, in whichever state it is.

    Attributes:
        name: the function's.
        announced: whether the call can no longer become text again.
        parameter: the name of the present parameter.
        parameters: how many of them were written, if the parser itself writes the object that they
            are members of.
        progress: where in the call a state is that others interrupt.
        reason: why the call is malformed.
    """

    name: str = ""
    announced: bool = False
    parameter: str = ""
    parameters: int | None = None
    progress: Any = None
    reason: str = ""


class StreamParser(Machine):
    """Text in, events out.

    `feed` returns what is certain now, `flush` the rest; afterwards the parser is fresh. How the
    text is cut into pieces never changes the events, once neighbours of a kind are joined.

    Attributes:
        events: what the present feed has found so far; states append to it.
        calls: how many calls have ended, complete or malformed.
        completed: how many of them were complete.
        cut: whether the text that ends was cut off, for states that ask at its end.
        repeatable: whether the steps since the parser was put at its position depend on nothing
            else and change nothing else, but for events and text that is kept.
        new_parts: the text that these steps have kept, if they were `repeatable`.

    Args:
        format: the table.
        types: for each function and parameter the JSON types that its schema allows, for formats
            that write arguments without types.
        start: begin in this state instead of the format's own.
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
        # Kept from states before, and in this one.
        self._raw: list[str] = []
        self._parts: list[str] = []
        self.events: list[Event] = []
        self.repeatable = True
        self.new_parts: list[str] = []
        self._node = MEMORY.node(self.position)

    @property
    def held(self) -> str:
        """The text that was taken and not emitted: it may still be several things."""
        self._settle()
        scratch = self.scratch
        return "".join([*self._raw, scratch.text, *self._parts, self.state.waiting(self)])

    @property
    def position(self) -> Position | None:
        """What a step depends on, unless it is not `repeatable`; None where that is no value."""
        scratch = self.scratch
        if scratch.json.__hash__ is None:
            return None
        # Arguments have the call's number, and replace what was kept before them.
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
        """The present call, to read or to change. The step is then not `repeatable`."""
        self.repeatable = False
        return self._call

    def schema_types(self) -> frozenset[str] | None:
        """Return the JSON types that the present parameter's schema allows, None without one."""
        call = self.call
        return self._types.get(call.name, {}).get(call.parameter)

    def offers(self, name: str) -> bool:
        """Return whether the request has a function of that name, or says nothing of functions."""
        self.repeatable = False
        return not self._types or name in self._types

    def feed(self, text: str) -> list[Event]:
        """Take the next piece of text; return the events that are certain now."""
        known = self._node.get(text)
        if known is None:
            return self._feed_new(text)
        events, self._node = known
        return [*events]

    def _feed_new(self, text: str) -> list[Event]:
        """Take a piece that is new in this position, or of which text is kept."""
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
        """Do what `feed` does, without looking the step up; the parser has left its node.

        Args:
            text: the next piece.
            events: the events are appended to it.
        """
        own, self.events = self.events, events
        if len(text) <= _WINDOW:
            self.pour(text)
        else:
            for start in range(0, len(text), _WINDOW):
                self.pour(text[start : start + _WINDOW])
        self.events = own

    def pour(self, text: str) -> None:
        """Let the states take a text, one after the other."""
        while text:
            text = self.state.take(self, text)

    def flush(self, *, cut: bool = False) -> list[Event]:
        """End the text; return the rest of the events. A second flush returns an empty list.

        Args:
            cut: the text was cut off, by a length or an abort: a call that lacks only its closing
                marker is `Malformed`. Where the model itself has ended, such a call is complete.
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
        """Keep text raw, as part of the position while it is short."""
        if len(self.scratch.text) + len(text) <= LONGEST_PIECE:
            self.scratch.text += text
        else:
            self.hold(text)

    def keep(self, text: str) -> None:
        """Keep text raw that decides nothing until `recall`."""
        self._parts.append(text)
        self.new_parts.append(text)

    def recall(self) -> str:
        """Return what `keep` has kept in this state. The step is then not `repeatable`."""
        self.repeatable = False
        return "".join(self._parts)

    def go(self, name: str) -> None:
        """Change the state."""
        self._hold_scratch()
        self.state = self.format.states[name]
        self.scratch = Scratch()

    def follow(self, on: On, marker: str) -> str:
        """Go where a marker leads; return what the next state should take of it."""
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
        """Give up the call because of what comes next; return what the next state should take."""
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
        """End a call that cannot be completed, with all that was kept of it."""
        self._hold_scratch()
        self.events.append(Malformed(self.calls, "".join(self._raw), self._call.reason))
        self._raw.clear()
        self.calls += 1
        self._call = Call()

    def _hold_scratch(self) -> None:
        """Keep raw what the state has kept."""
        self.repeatable = False
        scratch = self.scratch
        if scratch.text or self._parts:
            self._raw += [scratch.text, *self._parts]
            scratch.text = ""
            self._parts.clear()
            self.new_parts.clear()

    def _forget(self) -> None:
        """Drop what was kept: it was emitted, as it is or as something else."""
        self.repeatable = False
        self.scratch.text = ""
        self._parts.clear()
        self.new_parts.clear()
        self._raw.clear()

    def _release(self, kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> None:
        """Emit what was kept as text."""
        self._hold_scratch()
        text = "".join(self._raw)
        self._raw.clear()
        if text:
            self.events.append(kind(text))
