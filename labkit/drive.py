"""The seam between tests and the implementation under test.

A test describes a whole run as data: which object to make, which calls to make on it. `perform`
carries the run out and answers with data: what every call returned and what the object held.
Only plain values and the event types cross, so the same tests can drive an implementation that
lives in another process, one round trip per run.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from labkit.failure import Failure
from labkit.loader import last_line_in
from mini_vllm.text.events import TextDelta, ToolCall

Resolve = Callable[[str], Any]

_ATOMS = frozenset([type(None), bool, int, str, bytes, TextDelta, ToolCall])


@dataclass(frozen=True)
class New:
    """A recipe for an object: its class by name, and the arguments (recipes included)."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [_show_argument(value) for value in self.args]
        words += [f"{key}={_show_argument(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(words)})"


class Call(NamedTuple):
    """One step of a run: a method call on object number `object`; without `args`, an attribute
    read.
    """

    name: str
    args: tuple[Any, ...] | None = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})
    object: int = 0

    def __str__(self) -> str:
        if self.args is None:
            return self.name
        words = [_show_argument(value) for value in self.args]
        words += [f"{key}={_show_argument(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(words)})"


@dataclass(frozen=True)
class Raised:
    """An exception of the implementation, as data. `line` is the deepest line of its own code."""

    kind: str
    message: str
    line: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f"\n{self.line}" if self.line else "")


class Step(NamedTuple):
    """What one call returned, and what its object held afterwards."""

    call: Call
    result: Any
    held: Any = None


@dataclass
class Trace:
    """A run and its outcome. `raised` is set if the implementation raised; the run ends there."""

    new: tuple[New, ...]
    steps: list[Step]
    raised: Raised | None = None

    @property
    def outputs(self) -> list[Any]:
        """What every call returned, in order."""
        return [step.result for step in self.steps]

    @property
    def held(self) -> list[Any]:
        """What was held after every call, in order."""
        return [step.held for step in self.steps]

    @property
    def calls(self) -> list["Step"]:
        """The steps that were method calls, without the attribute reads."""
        return [step for step in self.steps if step.call.args is not None]

    @property
    def text(self) -> str:
        """What the method calls returned, joined; fails if one of them returned no `str`."""
        for step in self.calls:
            if not isinstance(step.result, str):
                returned = f"{step.result!r} ({type(step.result).__name__})"
                raise Failure("a str; '' when nothing is ready", returned, str(step.call), self)
        return "".join(step.result for step in self.calls)

    @property
    def events(self) -> list[Any]:
        """What the method calls returned as one list of events, adjacent `TextDelta`s merged."""
        merged: list[Any] = []
        for step in self.calls:
            if not isinstance(step.result, list):
                returned = f"{step.result!r} ({type(step.result).__name__})"
                wanted = "a list of events; [] when there are none"
                raise Failure(wanted, returned, str(step.call), self)
            for event in step.result:
                if event == TextDelta(""):
                    raise Failure("no empty TextDelta", "TextDelta('')", str(step.call), self)
                if isinstance(event, TextDelta) and merged and isinstance(merged[-1], TextDelta):
                    event = TextDelta(merged.pop().text + event.text)
                merged.append(event)
        return merged


def perform(resolve: Resolve, new: Sequence[New], calls: Iterable[Call], watch: str) -> Trace:
    """Make the objects, carry out the calls, and after each read the attribute `watch`, if any."""
    trace = Trace(tuple(new), [])
    try:
        objects = [_make(resolve, recipe) for recipe in new]
        for call in calls:
            target = objects[call.object] if objects else None
            value = resolve(call.name) if target is None else getattr(target, call.name)
            result = value if call.args is None else value(*call.args, **call.kwargs)
            held = getattr(target, watch) if watch else None
            trace.steps.append(Step(call, _plain(result), _plain(held)))
    except Exception as error:
        trace.raised = _raised(error)
    return trace


def _make(resolve: Resolve, value: Any) -> Any:
    if not isinstance(value, New):
        return value
    args = [_make(resolve, argument) for argument in value.args]
    kwargs = {key: _make(resolve, argument) for key, argument in value.kwargs.items()}
    return resolve(value.name)(*args, **kwargs)


def _plain(value: Any) -> Any:
    """Return a copy made of exact plain types, so that later changes and subclasses do not show."""
    if type(value) in _ATOMS:
        return value
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {_plain(key): _plain(item) for key, item in value.items()}
    raise TypeError(
        f"a {type(value).__name__} came back; return str, bytes, int, bool, None, an event, "
        "or a list, tuple or dict of those"
    )


def _raised(error: Exception) -> Raised:
    line = ""
    for frame in _frames(error):
        if where := last_line_in(error, frame):
            line = f"line {where[0]}: {where[1].strip()}"
    return Raised(type(error).__name__, str(error), line)


def _frames(error: Exception) -> list[str]:
    files = []
    step = error.__traceback__
    while step:
        files.append(step.tb_frame.f_code.co_filename)
        step = step.tb_next
    return [name for name in files if name != __file__][:1]


def _show_argument(value: Any) -> str:
    if isinstance(value, New):
        return str(value)
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}…{text[-15:]}"


class Driver:
    """What a test gets as `lab`: makes runs, and fails the test if the implementation raises.

    Attributes:
        random: a generator seeded by the session's seed and the test's name.
    """

    def __init__(self, resolve: Resolve, seed: str) -> None:
        self._resolve = resolve
        self.random = random.Random(seed)

    def new(self, name: str, *args: Any, **kwargs: Any) -> New:
        """Describe an object; each run makes it afresh."""
        return New(name, args, kwargs)

    def call(self, target: str | New, *args: Any, **kwargs: Any) -> Any:
        """Call a function by name, or a method: `lab.call(new, "decode", [65])`."""
        trace = self._call(target, args, kwargs)
        return self._checked(trace).outputs[-1]

    def rejects(self, target: str | New, *args: Any, **kwargs: Any) -> str:
        """Return the message of the `ValueError` that the call (or making `target`) must raise."""
        trace = self._call(target, args, kwargs)
        call = f"{target}" + (f", then {args}" if args else "")
        if trace.raised is None:
            raise Failure("a ValueError", f"no error; returned {trace.outputs!r}", call)
        if trace.raised.kind == "NotImplementedError":
            self._checked(trace)
        if trace.raised.kind not in ("ValueError", "UnicodeEncodeError"):
            raise Failure("a ValueError", str(trace.raised), call)
        return trace.raised.message

    def script(
        self, new: New, calls: Iterable[tuple[Any, ...] | str], watch: str = "held"
    ) -> Trace:
        """Run the calls on one object: `("feed", "a")` is a call, `"matched"` reads an
        attribute.
        """
        return self._checked(perform(self._resolve, [new], map(_as_call, calls), watch))

    def stream(
        self, new: New, pieces: Iterable[Any], *, end: str = "flush", watch: str = "held"
    ) -> Trace:
        """Feed the pieces one by one and end the stream by calling `end`; with "" leave it open."""
        calls = [("feed", piece) for piece in pieces]
        return self.script(new, [*calls, (end,)] if end else calls, watch)

    def interleave(
        self, new: Sequence[New], pieces: Sequence[Sequence[Any]], end: str
    ) -> list[Trace]:
        """Feed several objects in turns, piece by piece, then end each; return a trace per
        object.
        """
        turns = range(max(map(len, pieces)))
        calls = [Call("feed", (own[t],), object=i) for t in turns
                 for i, own in enumerate(pieces) if t < len(own)]  # fmt: skip
        calls += [Call(end, (), object=i) for i in range(len(new))]
        trace = self._checked(perform(self._resolve, new, calls, "held"))
        return [
            Trace((recipe,), [step for step in trace.steps if step.call.object == number])
            for number, recipe in enumerate(new)
        ]

    def _call(self, target: str | New, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
        if isinstance(target, str):
            return perform(self._resolve, [], [Call(target, args, kwargs)], "")
        calls = [Call(args[0], args[1:], kwargs)] if args else []
        return perform(self._resolve, [target], calls, "")

    def _checked(self, trace: Trace) -> Trace:
        if trace.raised is not None:
            after = str(trace.steps[-1].call) if trace.steps else "the first call"
            raise Failure("no exception", str(trace.raised), f"the call after {after}", trace)
        return trace


def _as_call(call: tuple[Any, ...] | str) -> Call:
    return Call(call, None) if isinstance(call, str) else Call(call[0], call[1:])
