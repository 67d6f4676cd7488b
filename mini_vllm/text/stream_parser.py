"""The machine behind all tool-call formats and reasoning splitters: states are data.

A `Format` is a table of states; each state says what it does with the text between markers, and
where each marker leads. The kinds of states are in `parser_states` and the `*_state` files beside
it. What is taken in but could still turn out to be plain text is kept raw, so that nothing is ever
lost: until a call is announced it may become text again, afterwards an explicit `Malformed`.

Most text stays within a state: it goes out, or is kept until the state ends, and no call's name,
schema or number matters. Such steps are remembered. A step from state to state is worked out.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
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
from mini_vllm.text.memory import LONGEST_PIECE, MEMORY, NOWHERE, Machine

# States pass the rest of a text on by copying it, so a long text is given to them in parts.
_WINDOW = 4096
# A state, its scratch without `parts`, the number of the call, and whether markup is kept.
Position = tuple["State", int, str, bool, Hashable, str, int, bool]


class State(Protocol):
    """One kind of place in a format. Positions have it in them, so it is equal to itself alone."""

    def take(self, parser: "StreamParser", text: str) -> str:
        """Take non-empty text; return what another state should take."""
        ...

    def waiting(self, parser: "StreamParser") -> str:
        """Return what was taken but neither emitted nor kept."""
        ...

    def end(self, parser: "StreamParser") -> bool:
        """Return whether a text may end here; if so, emit what waits."""
        ...

    def flows(self, scratch: "Scratch") -> bool:
        """Return whether steps within the state may be remembered now.

        What the state does with text then depends on nothing but the scratch without its parts,
        which is hashable. Whoever changes more than that, and events, says so by `flowed`, as
        `hold`, `go` and `announce` do; `keep` adds to the parts.
        """
        ...

    def writes(self, scratch: "Scratch") -> bool:
        """Return whether steps within the state may write arguments."""
        ...


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
    """What a stream remembers in its present state: made anew with each state.

    Attributes:
        marker: the state of an automaton of markers.
        pending: text that the state takes again with what comes next.
        begun: whether the value here has begun.
        json: where in a value the text is.
        text: kept raw, and decides what comes next, so it is short.
        parts: kept raw, and of no interest until the state ends.
    """

    marker: int = 0
    pending: str = ""
    begun: bool = False
    json: Any = None
    text: str = ""
    parts: list[str] = field(default_factory=list)


class StreamParser(Machine):
    """Text in, events out.

    `feed` returns what is certain now, `flush` the rest; afterwards the parser is fresh. How the
    text is cut into pieces never changes the events, once neighbours of a kind are joined.

    Attributes:
        events: what the present feed has found so far; states append to it.
        calls: how many calls have ended, complete or malformed.
        completed: how many of them were complete.
        cut: whether the text that ends was cut off, for states that ask at its end.
        flowed: whether no more has changed since the parser was put at its position than events
            and scratch.

    Args:
        format: the table.
        types: for each function and parameter the JSON types that its schema allows, for formats
            that write arguments without types.
        start: begin in this state instead of the format's own.
    """

    _shared = Machine._shared | {"format", "types", "_start", "state"}

    def __init__(
        self,
        format: Format,
        *,
        types: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
        start: str | None = None,
    ) -> None:
        self.format = format
        self.types = types or {}
        self._start = format.states[start or format.start]
        self._reset()

    def _reset(self) -> None:
        self.state = self._start
        self.scratch = Scratch()
        self.calls = 0
        self.completed = 0
        self.cut = False
        self.name = ""
        self.parameters: int | None = None
        self.parameter = ""
        self.announced = False
        self.progress: Any = None
        self.reason = ""
        self._raw: list[str] = []
        self.events: list[Event] = []
        self.flowed = True
        self._parts_before = 0
        self._node = NOWHERE
        self._node = MEMORY.node(self.position)

    @property
    def held(self) -> str:
        """The text that was taken and not emitted: it may still be several things."""
        self._settle()
        scratch = self.scratch
        return "".join([*self._raw, scratch.text, *scratch.parts, self.state.waiting(self)])

    @property
    def position(self) -> Position | None:
        """What the next step within the state depends on; None where that is not all."""
        self._settle()
        scratch = self.scratch
        if not self.state.flows(scratch):
            return None
        # Of arguments the call's number counts, and whether they are the first behind markup.
        writes = self.state.writes(scratch)
        call = self.calls if writes and self.announced else 0
        return (
            self.state, scratch.marker, scratch.pending, scratch.begun, scratch.json, scratch.text,
            call, writes and bool(self._raw),
        )  # fmt: skip

    @position.setter
    def position(self, position: Position) -> None:
        self._node = NOWHERE
        self.state = position[0]
        self.scratch = Scratch(*position[1:-2], self.scratch.parts)
        self.flowed = True
        self._parts_before = len(self.scratch.parts)

    @property
    def part(self) -> str:
        """What was kept since the parser was put at its position, if it flowed."""
        return "".join(self.scratch.parts[self._parts_before :])

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
            self.scratch.parts.append(part)
            return [*output]
        events: list[Event] = []
        before = self._leave()
        self.step(text, events)
        part = ""
        if before is not None:
            part = self.part
            before = before if self.flowed else None
        self._node = MEMORY.learn(before, text, (*events,), self.position, part)
        return events

    def step(self, text: str, events: list[Event]) -> None:
        """Do what `feed` does, without looking whether the step is known.

        Args:
            text: the next piece.
            events: the events are appended to it.
        """
        self._leave()
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
        self._leave()
        self.cut = cut
        while not self.state.end(self):
            self.pour(self.fail("the text ended inside the call"))
        self._release()
        events = self.events
        self._reset()
        return events

    def emit(self, event: Event) -> None:
        """Return an event with this feed."""
        self.events.append(event)

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
        """Keep text raw that is of no interest until the state ends."""
        self.scratch.parts.append(text)

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
        self.name = name
        self.announced = True
        self.emit(CallStart(self.calls, id, name))
        self._forget()

    def arguments(self, text: str) -> None:
        """Emit the next characters of the arguments."""
        if text:
            self.events.append(ArgsDelta(self.calls, text))
            if self._raw or self.scratch.parts:
                self._forget()
            self.scratch.text = ""

    def complete_call(self) -> None:
        """End a call whose arguments are complete."""
        if self.parameters is not None:
            self.arguments("}" if self.parameters else "{}")
            self.parameters = None
        self.progress = None
        self.emit(CallEnd(self.calls))
        self.completed += 1
        self._forget()
        self.calls += 1
        self.announced = False

    def fail(self, reason: str, rest: str = "") -> str:
        """Give up the call because of what comes next; return what the next state should take."""
        rest = self.state.waiting(self) + rest
        self.progress = None
        if self.announced:
            self.reason = reason
            self.parameters = None
            self.go(self.format.broken)
        else:
            self._release()
            self.go(self.format.home)
        return rest

    def malformed(self) -> None:
        """End a call that cannot be completed, with all that was kept of it."""
        self._hold_scratch()
        self.emit(Malformed(self.calls, "".join(self._raw), self.reason))
        self._raw.clear()
        self.calls += 1
        self.announced = False

    def _hold_scratch(self) -> None:
        """Keep raw what the state has kept."""
        scratch = self.scratch
        self.flowed = False
        if scratch.text or scratch.parts:
            self._raw += [scratch.text, *scratch.parts]
            scratch.text, scratch.parts = "", []

    def _forget(self) -> None:
        """Drop what was kept: it was emitted, as it is or as something else."""
        self.flowed = False
        self.scratch.text = ""
        self.scratch.parts.clear()
        self._raw.clear()

    def _release(self, kind: type[TextDelta] | type[ReasoningDelta] = TextDelta) -> None:
        """Emit what was kept as text."""
        self._hold_scratch()
        text = "".join(self._raw)
        self._raw.clear()
        if text:
            self.emit(kind(text))
