"""A run as data: the objects that were made, the calls, and their results.

Only plain values and the event types cross between tests and the implementation under test, so a
run can as well happen in another process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from types import MappingProxyType
from typing import Any, NamedTuple

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Chunk,
    Malformed,
    ReasoningDelta,
    StopOutput,
    TextDelta,
    ToolCall,
)

# The longest text of one value in a failure.
_MOST_SHOWN = 1_000
# The longest text of an argument in a line, and of an argument that is shown in full.
_MOST_IN_LINE = 60
MOST_IN_FULL = 300
MOST_WRITTEN = 100_000
# Python writes no number of more than 4,300 digits.
MOST_BITS = 14_000
# The events that cross, and the types that each of their fields may have. A tuple holds ints.
EVENTS: dict[type, dict[str, tuple[type, ...]]] = {
    TextDelta: {"text": (str,)},
    ToolCall: {"index": (int,), "name": (str,), "arguments": (str,)},
    ReasoningDelta: {"text": (str,)},
    CallStart: {"index": (int,), "id": (str, type(None)), "name": (str,)},
    ArgsDelta: {"index": (int,), "text": (str,)},
    CallEnd: {"index": (int,)},
    Malformed: {"index": (int,), "raw": (str,), "reason": (str,)},
    StopOutput: {"text": (str,), "stopped": (bool,), "reason": (int, str, type(None))},
    Chunk: {"text": (str,), "token_ids": (tuple,), "finish_reason": (str, type(None))},
}
# The prefix of names in the given module.
GIVEN_PREFIX = "given."
# Events whose text continues in the next event of the same kind and index.
_DELTAS = (TextDelta, ReasoningDelta, ArgsDelta)


def fields_of(event: Any) -> list[Any]:
    """Return the values of an event's fields, in order.

    Raises:
        TypeError: a value is missing, or not exactly of its type; the text describes the event.
    """
    values = []
    for name, types in EVENTS[type(event)].items():
        value = getattr(event, name, Ellipsis)
        if not any(type(value) is known for known in types):
            raise TypeError(f"{type(event).__name__} whose {name} is {a_type(value):.100}")
        if type(value) is tuple and not all(type(item) is int for item in value):
            raise TypeError(f"{type(event).__name__} whose {name} holds other values than int")
        values.append(value)
    return values


def pieces_of(event: Any) -> Iterable[Any]:
    """Return an item for each character of an event's text, so that cuts have no effect.

    The item is the character for a `TextDelta`, and for other texts their kind and the character:
    texts may have a million. For an event without such a text, return the event itself.
    """
    kind = _kind_of_text(event)
    if kind is None:
        return [event]
    return event.text if type(event) is TextDelta else zip(repeat(kind), event.text, strict=False)


@dataclass(frozen=True)
class New:
    """A recipe for an object: its class by name, and the arguments (recipes included).

    `given.NAME` is a name in the given module. If the same `New` occurs twice in one run, both are
    one object.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.render()

    def render(self, *, most: int = _MOST_IN_LINE) -> str:
        """Return the recipe in words; a longer argument is cut to `most` characters."""
        return f"{self.name}({_arguments(self.args, self.kwargs, most)})"

    @property
    def has_vocabulary(self) -> bool:
        """Whether its ids may be other than bytes: its arguments contain an object of the given
        module, or a table of bytes by id.
        """
        parts = (*self.args, *self.kwargs.values())
        return self.name.startswith(GIVEN_PREFIX) or any(map(_has_vocabulary, parts))


def _has_vocabulary(part: Any) -> bool:
    if isinstance(part, New):
        return part.has_vocabulary
    return isinstance(part, list) and any(isinstance(piece, bytes) for piece in part)


class Call(NamedTuple):
    """One step of a run: a method call on object number `object`; without `args`, an attribute
    read.
    """

    name: str
    args: tuple[Any, ...] | None = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})
    object: int = 0

    def __str__(self) -> str:
        return self.render(as_bytes=True)

    def render(self, *, as_bytes: bool, most: int = _MOST_IN_LINE) -> str:
        """Return the call in words; `as_bytes` shows ids that may be bytes as bytes.

        A longer argument is cut to `most` characters.
        """
        if self.args is None:
            return self.name
        return f"{self.name}({_arguments(self.args, self.kwargs, most, as_ids=as_bytes)})"


@dataclass(frozen=True)
class Raised:
    """An exception of the implementation, as data.

    Attributes:
        kind: its class.
        message: its text.
        line: the deepest line of the implementation's own code: number and source.
        call: the call, with its arguments.
        error: the exception itself, for a debugger; None if it was raised in another process.
    """

    kind: str
    message: str
    line: str = ""
    call: str = ""
    error: BaseException | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f"\n{self.line}" if self.line else "")


@dataclass(frozen=True, eq=False)
class Unreadable:
    """The placeholder of a value that could not be read; a test that uses it fails.

    Attributes:
        kind: `method` (an attribute that should be called first), `type` (of a type that does not
            cross to the tests), or the class of the exception that reading raised.
        message: the fault in words; the exception's text if there is one.
        line: the deepest line of the implementation's own code, for an exception.
        name: the attribute, or the method that returned the value.
    """

    kind: str
    message: str
    line: str = ""
    name: str = ""

    def failure(self, call: str = "", trace: "Trace | None" = None) -> "Failure":
        """Return the failure of a test that needs the value."""
        if self.kind in ("method", "type"):
            return Failure("a value of the right type", self.message, call, trace, self.message)
        raised = Raised(self.kind, self.message, self.line, self.name)
        return Failure("no exception", str(raised), self.name, trace, str(raised), raised)

    @property
    def in_short(self) -> str:
        """The fault in a few words: `a generator`, `a method`, or `raised KeyError`."""
        if self.kind == "method":
            return "a method"
        if self.kind != "type":
            return f"raised {self.kind}"
        words = self.message.partition("; ")[0]
        return words.removeprefix(f"{self.name} returned ").removeprefix(f"`{self.name}` is ")

    def __repr__(self) -> str:
        return f"({self.message if self.kind in ('method', 'type') else self.kind})"

    def _fail(self, *_: Any) -> Any:
        raise self.failure()

    __bool__ = __contains__ = __getitem__ = __iter__ = __len__ = __add__ = __radd__ = _fail


class Step(NamedTuple):
    """A call, its result, and the text that its object held afterwards: values or `Unreadable`."""

    call: Call
    result: Any
    held: Any = None


@dataclass
class Trace:
    """A run and its outcome.

    Attributes:
        new: the objects that were made.
        steps: the result of each call.
        raised: the exception of the implementation, which ended the run; else None.
        changed: the arguments that the implementation changed, in words: it got copies.
        pending: the call that raised, if a call did.
    """

    new: tuple[New, ...]
    steps: list[Step]
    raised: Raised | None = None
    changed: list[str] = field(default_factory=list)
    pending: Call | None = None

    @property
    def outputs(self) -> list[Any]:
        """The results of all calls, in order; fails if one is `Unreadable`."""
        return self._readable([step.result for step in self.steps])

    @property
    def held(self) -> list[Any]:
        """The held text after every call, in order; fails if one is `Unreadable`."""
        return self._readable([step.held for step in self.steps])

    def _readable(self, values: list[Any]) -> list[Any]:
        if Unreadable in set(map(type, values)):
            number = next(i for i, value in enumerate(values) if type(value) is Unreadable)
            failure: Failure = values[number].failure(str(self.steps[number].call), self)
            failure.at = number
            raise failure
        return values

    @property
    def calls(self) -> list["Step"]:
        """The steps that were method calls, without the attribute reads."""
        return [step for step in self.steps if step.call.args is not None]

    def _numbered_calls(self) -> list[tuple[int, Step]]:
        return [(i, step) for i, step in enumerate(self.steps) if step.call.args is not None]

    @property
    def text(self) -> str:
        """The results of the method calls, joined; fails if one of them is not a `str`."""
        for number, step in self._numbered_calls():
            if not isinstance(step.result, str):
                raise _of_wrong_type(number, "a str; '' when nothing is ready", self)
        return "".join(step.result for step in self.calls)

    @property
    def events(self) -> list[Any]:
        """The results of the method calls as one list of events.

        Adjacent texts of one kind are `joined`.
        """
        events: list[Any] = []
        for number, step in self._numbered_calls():
            if not isinstance(step.result, list):
                raise _of_wrong_type(number, "a list of events; [] when there are none", self)
            for event in step.result:
                if type(event) in _DELTAS and not event.text:
                    raise self._empty(number, type(event).__name__)
            events += step.result
        return joined(events)

    def _empty(self, number: int, kind: str) -> "Failure":
        step = self.steps[number]
        shown = written(step.result, _MOST_SHOWN)
        reason = f"{step.call.name} returned an empty {kind}"
        return Failure(f"no empty {kind}", shown, str(step.call), self, reason, at=number)


def joined(events: Iterable[Any]) -> list[Any]:
    """Return events with adjacent texts of one kind as one event.

    That is, `TextDelta`s are joined, and so are `ReasoningDelta`s, and `ArgsDelta`s of one call.
    """
    result: list[Any] = []
    for kind, run in groupby(events, _kind_of_text):
        if kind is None:
            result += run
            continue
        first, *more = run
        if more:
            first = replace(first, text="".join(event.text for event in (first, *more)))
        result.append(first)
    return result


def _kind_of_text(event: Any) -> tuple[type, int] | None:
    return (type(event), getattr(event, "index", 0)) if type(event) in _DELTAS else None


class Failure(AssertionError):
    """The implementation broke the rule under test; `reporting.report` prints it.

    Attributes:
        expected, actual: in words or as `repr`.
        call: the call that broke the rule.
        trace: the run, or None.
        reason: the fault independently of the input, if it is known; else "".
        raised: the exception that broke the rule, if one did.
        at: the number of the first step that broke the rule, if it is known.
        item: the index of the first wrong item in the list that this step returned, if it is known.
        shrunk: whether its case was made smaller than the first failing case.
        again: applies the broken rule to its smallest case again; None if there is no such rule.
        by_call: the expected value of each step of `trace`, if the test compares them one by one.
        is_count: whether a count is too high.
    """

    def __init__(
        self,
        expected: str,
        actual: str,
        call: str = "",
        trace: Trace | None = None,
        reason: str = "",
        raised: Raised | None = None,
        at: int | None = None,
    ) -> None:
        # A test may build its texts from everything that an implementation returned.
        expected, actual = expected[:MOST_WRITTEN], actual[:MOST_WRITTEN]
        reason = reason[:MOST_WRITTEN]
        message = reason or f"expected {expected}, got {actual}"
        if not reason and call and {expected, actual} == {"True", "False"}:
            # Without the compared statement, these two words say nothing.
            message = f"{call[:_MOST_SHOWN]}: {message}"
        super().__init__(message)
        self.expected = expected
        self.actual = actual
        self.call = call[:MOST_WRITTEN]
        self.trace = trace
        self.reason = reason
        self.raised = raised
        self.at = at
        self.item: int | None = None
        self.shrunk = False
        self.again: Callable[[], object] | None = None
        self.by_call: list[Any] | None = None
        self.is_count = False


def written(value: Any, most: int = MOST_WRITTEN) -> str:
    """Return `repr(value)`, cut after `most` characters, without building a longer text.

    For a number with more digits than Python writes, return its size.
    """
    parts, length = [], 0
    for part in _parts(value, most + 1):
        parts.append(part)
        length += len(part)
        if length > most:
            break
    text = "".join(parts)
    return text if len(text) <= most else text[:most] + "…"


def _parts(value: Any, most: int) -> Iterator[str]:
    kind = type(value)
    if kind is str or kind is bytes:
        yield repr(value if len(value) <= most else value[:most])
    elif kind is int and value.bit_length() > MOST_BITS:
        yield f"an int of {value.bit_length()} bits"
    elif kind is list or kind is tuple:
        start, end = "[]" if kind is list else ("(", ",)" if len(value) == 1 else ")")
        yield from _joined(start, (((), item) for item in value), end, most)
    elif kind is dict:
        pairs = (((*_parts(key, most), ": "), item) for key, item in value.items())
        yield from _joined("{", pairs, "}", most)
    elif kind in EVENTS:
        fields = (((f"{name}=",), getattr(value, name)) for name in EVENTS[kind])
        yield from _joined(f"{kind.__name__}(", fields, ")", most)
    else:
        yield repr(value)


def _joined(
    start: str, labelled: Iterable[tuple[Iterable[str], Any]], end: str, most: int
) -> Iterator[str]:
    yield start
    for number, (label, value) in enumerate(labelled):
        if number:
            yield ", "
        yield from label
        yield from _parts(value, most)
    yield end


def a_type(value: Any) -> str:
    """Return the type of a value with its article: `a str`, `None`."""
    name = type(value).__name__
    if value is None or name == "bytes":
        return "None" if value is None else name
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


def _of_wrong_type(number: int, expected: str, trace: Trace) -> Failure:
    step = trace.steps[number]
    if type(step.result) is Unreadable:
        failure = step.result.failure(str(step.call), trace)
        failure.at = number
        return failure
    shown = written(step.result, _MOST_SHOWN)
    returned = "None" if step.result is None else f"{shown}, {a_type(step.result)}"
    reason = f"{step.call.name} returned {a_type(step.result)}; expected {expected}"
    return Failure(expected, returned, str(step.call), trace, reason, at=number)


def _arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], most: int, *, as_ids: bool = False
) -> str:
    words = [_show_argument(value, most, as_ids=as_ids) for value in args]
    words += [f"{key}={_show_argument(value, most)}" for key, value in kwargs.items()]
    return ", ".join(words)


def _show_argument(value: Any, most: int, *, as_ids: bool = False) -> str:
    if isinstance(value, New):
        return value.render(most=most)
    if as_ids and type(value) is list and _are_bytes(value):
        text = f"[{', '.join(map(_show_byte, value))}]"
    else:
        text = _show_byte(value) if as_ids and _are_bytes([value]) else repr(value)
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[-most // 4 :]}"


def _are_bytes(values: list[Any]) -> bool:
    return all(type(value) is int and 0 <= value < 256 for value in values)


def _show_byte(value: int) -> str:
    """Return a byte id as `0xE2`, or with its ASCII character, `97 'a'`."""
    return f"{value} {chr(value)!r}" if 32 <= value < 127 else f"0x{value:02X}"
