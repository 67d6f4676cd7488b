"""The seam between tests and the implementation under test.

A test describes a whole run as data: which object to make, which calls to make on it. `perform`
carries the run out and answers with data, one round trip per run.
"""

import itertools
import random
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from labkit.running.trace import Call, Failure, New, Raised, Step, Trace
from mini_vllm.text.events import TextDelta, ToolCall

Resolve = Callable[[str], Any]
Perform = Callable[[Sequence[New], Sequence[Call], str], Trace]

_ATOMS = frozenset([type(None), bool, int, str, bytes])
_LABKIT = str(Path(__file__).parents[1])


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
    if type(value) is TextDelta and type(value.text) is str:
        return value
    if type(value) is ToolCall and type(value.name) is type(value.arguments) is str:
        return value
    raise TypeError(
        f"{type(value).__name__} {value!r:.80} came back; return str, bytes, int, bool, None, an "
        "event whose fields are str, or a list, tuple or dict of those"
    )


def _raised(error: Exception) -> Raised:
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_LABKIT)]
    own = [frame for frame in theirs if frame.filename == theirs[0].filename]
    line = f"line {own[-1].lineno}: {own[-1].line}" if own else ""
    return Raised(type(error).__name__, str(error), line)


class Driver:
    """What a test gets as `lab`: makes runs, and fails the test if the implementation raises.

    Args:
        perform: carries runs out, here or in another process.
        seed: of the randomness.

    Attributes:
        random: a generator seeded by the session's seed and the test's name.
    """

    def __init__(self, perform: Perform, seed: str) -> None:
        self._perform = perform
        self.random = random.Random(seed)

    def new(self, name: str, *args: Any, **kwargs: Any) -> New:
        """Describe an object; each run makes it afresh."""
        return New(name, args, kwargs)

    def call(self, target: str | New, *args: Any, **kwargs: Any) -> Any:
        """Call a function by name, or a method: `lab.call(new, "decode", [65])`."""
        trace = self._perform(*_plan(target, args, kwargs), "")
        return self._checked(trace).outputs[-1]

    def rejects(self, target: str | New, *args: Any, **kwargs: Any) -> str:
        """Return the message of the `ValueError` that the call (or making `target`) must raise."""
        new, calls = _plan(target, args, kwargs)
        trace = self._perform(new, calls, "")
        call = "; ".join(map(str, [*new, *calls]))
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
        return self._checked(self._perform([new], [*map(_as_call, calls)], watch))

    def stream(
        self, new: New, pieces: Iterable[Any], *, end: str = "flush", watch: str = "held"
    ) -> Trace:
        """Feed the pieces one by one and end the stream by calling `end`; with "" leave it open."""
        feeds = (("feed", piece) for piece in pieces)
        return self.script(new, itertools.chain(feeds, [(end,)] if end else []), watch)

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
        trace = self._checked(self._perform(new, calls, "held"))
        return [
            Trace((recipe,), [step for step in trace.steps if step.call.object == number])
            for number, recipe in enumerate(new)
        ]

    def _checked(self, trace: Trace) -> Trace:
        if trace.raised is not None:
            after = str(trace.steps[-1].call) if trace.steps else "the first call"
            raise Failure("no exception", str(trace.raised), f"the call after {after}", trace)
        return trace


def _plan(
    target: str | New, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[New], list[Call]]:
    """Return what to make and what to call: a function, a method, or only the object itself."""
    if isinstance(target, str):
        return [], [Call(target, args, kwargs)]
    return [target], [Call(args[0], args[1:], kwargs)] if args else []


def _as_call(call: tuple[Any, ...] | str) -> Call:
    return Call(call, None) if isinstance(call, str) else Call(call[0], call[1:])
