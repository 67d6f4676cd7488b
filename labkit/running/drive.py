"""The seam between tests and the implementation under test.

A test describes a whole run as data: the object to make, and the calls to make on it. `perform`
carries the run out and returns data, with one round trip per run.
"""

import dis
import linecache
import random
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import StackSummary
from types import MappingProxyType, MethodType, ModuleType
from typing import Any

from labkit.errors import LabFolderError
from labkit.running import platform
from labkit.running.source import is_given, text_of
from labkit.running.trace import (
    EVENTS,
    Call,
    Failure,
    New,
    Raised,
    Step,
    Trace,
    Unreadable,
    a_type,
    fields_of,
    written,
)
from mini_vllm.text.events import TextDelta, ToolCall

Resolve = Callable[[str], Any]
Perform = Callable[[Sequence[New], Sequence[Call], str], Trace]

# The name that was called, the test's value, and the copy that the implementation got.
_Argument = tuple[str, Any, Any]

# A test makes hundreds of thousands of calls; this takes a third of the time of `Call(...)`.
_call_of = partial(tuple.__new__, Call)
_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
_ATOMS = frozenset([type(None), bool, int, str, bytes])
_MUTABLE = (list, dict)
_CHANGED_ARGUMENT = "{name} changed its argument"
_CHANGED_LATER = "a {kind} that {name} returned changed later"
_LABKIT = str(Path(__file__).parents[1])
# A test joins, compares and shows the results of a run, which takes several times their size. So a
# run returns at most so many characters in all; values with fewer than a million are not counted.
_MOST_RETURNED = 500_000_000
_LARGE = 1_000_000
# Limits: an exception's text, a changed argument's text, and the number of changed arguments.
_MOST_CHARACTERS = 4_000
_MOST_SHOWN = 60
MOST_CHANGES = 10
# Advice for a value whose type does not cross.
_INSTEAD = {
    **dict.fromkeys(["bytearray", "memoryview"], "return bytes"),
    **dict.fromkeys(["set", "frozenset", "deque", "map", "filter", "zip"], "return a list"),
    "generator": "return a str or a list (a function with `yield` returns a generator)",
}
_CROSSING = "return str, bytes, int, bool, None, an event, or a list, tuple or dict of those"


def perform(resolve: Resolve, new: Sequence[New], calls: Iterable[Call], watch: str) -> Trace:
    """Make the objects, carry out the calls, and after each read the attribute `watch`, if any."""
    run = Run(resolve, new, watch)
    run.carry_out(calls)
    return run.end()


class Run:
    """A run in progress: its calls may be carried out in any number of rounds.

    The implementation gets copies of arguments that can change, so it never touches a test's data.

    Args:
        resolve: returns the class or function of a name.
        new: the objects to make before the first call.
        watch: the attribute to read after each call, or "".

    Attributes:
        watch: the argument `watch`.
        trace: the outcome so far.
    """

    def __init__(self, resolve: Resolve, new: Sequence[New], watch: str) -> None:
        self.trace = Trace(tuple(new), [])
        self._resolve = resolve
        self.watch = watch
        self._objects: list[Any] = []
        self._made: dict[int, Any] = {}
        self._arguments: list[_Argument] = []
        # The values that the calls returned; the steps have copies.
        self._returned: list[Any] = []
        self._characters = 0
        self._held: Any = None
        self._make_all()

    def carry_out(self, calls: Iterable[Call]) -> None:
        """Carry out the next calls, unless something raised."""
        trace, resolve, watch, held = self.trace, self._resolve, self.watch, self._held
        changed, returned = trace.changed, self._returned
        if trace.raised is not None:
            return
        doing: Call | None = None
        try:
            for doing in calls:
                target = self._objects[doing.object] if self._objects else None
                value = None
                if doing.args is None:
                    result = _read(resolve, target, doing.name)
                else:
                    value = result = _call(resolve, target, doing, changed)
                    if type(value) is str or type(value) is bytes:
                        if len(value) > _LARGE:
                            self._count(value, doing.name)
                    elif type(value) not in _ATOMS:
                        result = _data(value, f"{doing.name} returned", doing.name)
                if watch and type(held) is not Unreadable:
                    held = self.read_watch(target)
                trace.steps.append(Step(doing, result, held))
                returned.append(value)
        except (Exception, SystemExit) as error:
            trace.raised = _raised(error, doing)
            if isinstance(error, MemoryError) and not trace.raised.line and doing is not None:
                trace.raised = replace(trace.raised, line=self._line_of(doing.name))
        self._held = held

    def read_watch(self, target: Any) -> Any:
        """Return the value of the attribute `watch` of an object, or `Unreadable`."""
        return _read(self._resolve, target, self.watch)

    def _count(self, value: str | bytes, name: str) -> None:
        """Count the characters of a large result.

        Raises:
            MemoryError: the run has returned too many.
        """
        self._characters += len(value)
        if self._characters > _MOST_RETURNED:
            raise MemoryError(
                f"{name} returned {len(value):,} characters, which makes {self._characters:,} in "
                f"all; a test reads at most {_MOST_RETURNED:,}"
            )

    def _line_of(self, name: str) -> str:
        """Return the line on which a function returns if it has one `return`, else its first."""
        function = getattr(type(self._objects[0]), name) if self._objects else self._resolve(name)
        code = getattr(function, "__code__", None)
        if code is None:
            return ""
        ends = (part.positions for part in dis.get_instructions(code) if "RETURN" in part.opname)
        lines = {place.lineno for place in ends if place is not None and place.lineno is not None}
        line = lines.pop() if len(lines) == 1 else code.co_firstlineno
        return f"line {line}: {linecache.getline(code.co_filename, line).strip()}"

    def end(self) -> Trace:
        """Return the whole run, including changes to the arguments of its objects and to lists
        that had been returned.
        """
        changed = self.trace.changed
        for name, before, after in self._arguments:
            _note_change(changed, _CHANGED_ARGUMENT, before, after, name)
        # Every value is still held here, so two values never have the same id.
        ids: set[int] = set()
        for (call, copy, _), value in zip(self.trace.steps, self._returned, strict=True):
            if type(value) in _MUTABLE and type(copy) in _MUTABLE:
                _note_change(changed, _CHANGED_LATER, copy, value, call.name)
                if id(value) in ids and len(changed) < MOST_CHANGES:
                    kind = type(copy).__name__
                    changed.append(f"{call.name} returned the same {kind} object again")
                ids.add(id(value))
        return self.trace

    def _make_all(self) -> None:
        doing: New | None = None
        try:
            for doing in self.trace.new:
                self._objects.append(self._make(doing))
        except (Exception, SystemExit) as error:
            self.trace.raised = _raised(error, doing)

    def _make(self, value: Any) -> Any:
        """Return a copy of an argument; for a recipe, return the object, which is made once."""
        if not isinstance(value, New):
            return _copy(value)
        if id(value) in self._made:
            return self._made[id(value)]
        args = [self._make(argument) for argument in value.args]
        kwargs = {key: self._make(argument) for key, argument in value.kwargs.items()}
        pairs = [*zip(value.args, args, strict=True)]
        pairs += [(argument, kwargs[key]) for key, argument in value.kwargs.items()]
        self._arguments += [
            (value.name, old, copy) for old, copy in pairs if not isinstance(old, New)
        ]
        made = self._made[id(value)] = self._resolve(value.name)(*args, **kwargs)
        return made


def _call(resolve: Resolve, target: Any, call: Call, changed: list[str]) -> Any:
    method = resolve(call.name) if target is None else _method(target, call.name)
    args, kwargs = call.args, call.kwargs
    assert args is not None
    if not kwargs and _ATOMS.issuperset(map(type, args)):
        result = method(*args)
    else:
        args, kwargs = _copy(args), _copy(dict(kwargs))
        result = method(*args, **kwargs)
        before = (call.args, dict(call.kwargs))
        _note_change(changed, _CHANGED_ARGUMENT, before, (args, kwargs), call.name)
    return result


def _method(target: Any, name: str) -> Any:
    try:
        return getattr(target, name)
    except AttributeError as error:
        if _own_frames(error):
            raise
        raise AttributeError(f"{type(target).__name__} has no method {name!r}") from None


def _read(resolve: Resolve, target: Any, name: str) -> Any:
    """Return the value of an attribute, or `Unreadable`."""
    try:
        value = resolve(name) if target is None else getattr(target, name)
    except (Exception, SystemExit) as error:
        raised = _raised(error, name)
        if isinstance(error, AttributeError) and not raised.line:
            missing = f"{type(target).__name__} has no attribute {name!r}"
            return Unreadable("AttributeError", missing, "", name)
        return Unreadable(raised.kind, raised.message, raised.line, name)
    if type(value) in _ATOMS:
        return value
    if type(value) is MethodType:
        words = f"`{name}` is a method: put `@property` above it"
        return Unreadable("method", words, "", name)
    return _data(value, f"`{name}` is", name)


def _copy(value: Any) -> Any:
    """Return a copy of a value; its mutable parts are copied as well."""
    if type(value) is list:
        return value[:] if _ATOMS.issuperset(map(type, value)) else [*map(_copy, value)]
    if type(value) is tuple:
        return tuple(map(_copy, value))
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) in EVENTS:
        return replace(value)
    return bytearray(value) if type(value) is bytearray else value


def _note_change(changed: list[str], words: str, before: Any, after: Any, name: str) -> None:
    """Add a note if a value no longer equals its copy."""
    try:
        if after == before or len(changed) == MOST_CHANGES:
            return
        old, new = _first_difference(before, after)
        change = f"{old!r:.{_MOST_SHOWN}} became {new!r:.{_MOST_SHOWN}}"
    except Exception:
        # The implementation put a value there whose `==` or `repr` raised.
        change = "it became another value"
    kind = type(before).__name__
    changed.append(f"{words.format(name=name, kind=kind)}: {change}")


def _first_difference(before: Any, after: Any) -> tuple[Any, Any]:
    """Return the one argument that changed."""
    if type(before) is not tuple:
        return before, after
    (args, kwargs), (new_args, new_kwargs) = before, after
    pairs = [*zip(args, new_args, strict=True), *((kwargs[key], new_kwargs[key]) for key in kwargs)]
    return next((old, new) for old, new in pairs if old != new)


class _ForeignError(Exception):
    """A value of a type that does not cross."""


def _data(value: Any, what: str, name: str) -> Any:
    """Return the value as plain data, or `Unreadable`."""
    try:
        return _plain(value)
    except _ForeignError as error:
        kind = str(error)
        itself = kind == type(value).__name__ or type(value) in EVENTS
        nested = "" if itself else f"{a_type(value)} with "
        instead = _fields_in_words(kind) or _INSTEAD.get(kind, _CROSSING)
        article = "an" if kind[:1] in "aeio" else "a"
        return Unreadable("type", f"{what} {nested}{article} {kind}; {instead}", "", name)
    except RecursionError:
        return Unreadable("type", f"{what} nested too deep", "", name)


def _fields_in_words(kind: str) -> str:
    """Return the fields that an event must have, if the words say that its fields are wrong."""
    event, is_wrong, _ = kind.partition(" whose ")
    named = {cls.__name__: fields for cls, fields in EVENTS.items()}
    if not is_wrong or event not in named:
        return ""
    fields = (
        f"{field}: {' or '.join('None' if kind is type(None) else kind.__name__ for kind in kinds)}"
        for field, kinds in named[event].items()
    )
    return f"a {event} has {', '.join(fields)}"


def _plain(value: Any) -> Any:
    """Return a copy made of exact plain types, so later changes and subclasses have no effect."""
    if type(value) in _ATOMS:
        return value
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {_plain(key): _plain(item) for key, item in value.items()}
    if type(value) is TextDelta and type(value.text) is str:
        return value
    if type(value) is ToolCall and (
        type(value.index) is int and type(value.name) is type(value.arguments) is str
    ):
        return value
    if type(value) in EVENTS:
        try:
            fields_of(value)
        except TypeError as error:
            raise _ForeignError(str(error)) from None
        return value
    raise _ForeignError(f"{type(value).__name__:.100}")


def as_plain(value: Any) -> Any:
    """Return a copy of a value that crosses the seam; as an argument, a set of ints crosses too.

    Raises:
        TypeError: the value does not cross.
    """
    if type(value) is dict:
        return {as_plain(key): as_plain(item) for key, item in value.items()}
    if type(value) is frozenset and {int}.issuperset(map(type, value)):
        return value
    try:
        return _plain(value)
    except _ForeignError as error:
        raise TypeError(f"a {error} is not plain data: it does not cross") from None


def _raised(error: BaseException, doing: object) -> Raised:
    platform.make_room(error)
    own = _own_frames(error)
    line = f"line {own[-1].lineno}: {own[-1].line}" if own else ""
    message = text_of(error) + _suggestion(error)
    if isinstance(error, NotImplementedError) and not message and own:
        message = f"{own[-1].name} (line {own[-1].lineno})"
    clipped = (text[:_MOST_CHARACTERS] for text in (message, line, str(doing)))
    if error.__traceback__ is not None:
        # Its first frame holds the trace, which is to hold the error.
        error.__traceback__ = error.__traceback__.tb_next
    return Raised(type(error).__name__, *clipped, error=error)


def _suggestion(error: BaseException) -> str:
    """Return a suggestion for a name that does not exist: the most similar name."""
    name = getattr(error, "name", None)
    if isinstance(error, AttributeError) and isinstance(name, str):
        known = dir(error.obj)
    elif isinstance(error, NameError) and isinstance(name, str) and error.__traceback__:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        known = [*frame.f_locals, *frame.f_globals]
    else:
        return ""
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known), 1, 0.75)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of the error in the first file outside of labkit.

    The course's own programs, whose frames may be in between, are skipped.
    """
    walked = traceback.walk_tb(error.__traceback__)
    frames = StackSummary.extract(pair for pair in walked if not is_given(pair[0].f_globals))
    theirs = [frame for frame in frames if not frame.filename.startswith(_LABKIT)]
    return [frame for frame in theirs if frame.filename == theirs[0].filename]


class Driver:
    """The fixture `lab` of a test: it makes runs, and fails the test if the implementation raises.

    Args:
        perform: carries runs out, here or in another process.
        seed: of the randomness.
        given: returns the lab's given module.

    Attributes:
        random: a generator seeded by the session's seed and the test's name.
    """

    def __init__(
        self, perform: Perform, seed: str, given: Callable[[], ModuleType] | None = None
    ) -> None:
        self._perform = perform
        self._given = given
        self.random = random.Random(seed)

    @property
    def given(self) -> ModuleType:
        """The tests' own copy of the given module, which the implementation cannot reach.

        Objects for the implementation are made by name: `lab.new("given.tokenizer", "byte_level")`.
        """
        if self._given is None:
            raise LabFolderError(
                "this lab has no given files: name them under [given] in its lab.toml"
            )
        return self._given()

    def new(self, name: str, *args: Any, **kwargs: Any) -> New:
        """Describe an object; each run makes it anew."""
        return New(name, args, kwargs)

    def call(self, target: str | New, *args: Any, **kwargs: Any) -> Any:
        """Call a function by name, or a method: `lab.call(new, "decode", [65])`."""
        trace = self._run(*_plan(target, args, kwargs), "")
        return self._checked(trace).outputs[-1]

    def rejects(self, target: str | New, *args: Any, **kwargs: Any) -> str:
        """Return the message of the `ValueError` that the call (or making `target`) must raise."""
        new, calls = _plan(target, args, kwargs)
        trace = self._run(new, calls, "")
        call = "; ".join(map(str, [*new, *calls]))
        if trace.raised is None:
            done = (
                f"it returned {written(trace.outputs[-1], 1_000)}"
                if calls
                else "the object was made"
            )
            raise Failure("a ValueError", f"no error: {done}", call)
        if trace.raised.kind == "NotImplementedError":
            self._checked(trace)
        if trace.raised.kind not in ("ValueError", "UnicodeEncodeError"):
            raise _raising("a ValueError", trace.raised, None)
        return trace.raised.message

    def script(
        self,
        new: New | Sequence[New],
        calls: Iterable[Call | tuple[Any, ...] | str],
        watch: str = "held",
    ) -> Trace:
        """Run the calls on one object: `("feed", "a")` is a call, `"matched"` reads an attribute.

        With several objects, a `Call` names its object: `Call("count", None, object=1)`.
        """
        objects = [new] if isinstance(new, New) else new
        return self._checked(self._run(objects, [*map(_as_call, calls)], watch))

    def stream(
        self,
        new: New,
        pieces: Iterable[Any],
        *,
        feed: str = "feed",
        end: str = "flush",
        watch: str = "held",
    ) -> Trace:
        """Feed the pieces one by one by calling `feed`, then end the stream by calling `end`; if
        `end` is "", the stream stays open.
        """
        calls = [_call_of((feed, (piece,), _NO_OPTIONS, 0)) for piece in pieces]
        calls += [Call(end, ())] if end else []
        return self._checked(self._run([new], calls, watch))

    def interleave(
        self,
        new: Sequence[New],
        pieces: Sequence[Sequence[Any]],
        end: str,
        feed: str = "feed",
        watch: str = "held",
    ) -> list[Trace]:
        """Feed several objects in turns, piece by piece, then end each; return a trace per
        object. With `end` "" they stay open. A recipe that occurs twice makes two objects.
        """
        new = [replace(recipe) for recipe in new]
        turns = range(max(map(len, pieces)))
        calls = [Call(feed, (own[t],), object=i) for t in turns
                 for i, own in enumerate(pieces) if t < len(own)]  # fmt: skip
        calls += [Call(end, (), object=i) for i in range(len(new)) if end]
        trace = self._checked(self._run(new, calls, watch))
        return [
            Trace(
                (recipe,),
                [step for step in trace.steps if step.call.object == number],
                changed=trace.changed,
            )
            for number, recipe in enumerate(new)
        ]

    def _run(self, new: Sequence[New], calls: Sequence[Call], watch: str) -> Trace:
        """Carry out a run; note the call that raised, whose words may be shortened."""
        trace = self._perform(new, calls, watch)
        done = len(trace.steps)
        if trace.raised is not None and done < len(calls):
            trace.pending = calls[done] if str(calls[done]) == trace.raised.call else None
        return trace

    def _checked(self, trace: Trace) -> Trace:
        if trace.raised is not None:
            raise _raising("no exception", trace.raised, trace)
        return trace


def _raising(expected: str, raised: Raised, trace: Trace | None) -> Failure:
    return Failure(expected, str(raised), raised.call, trace, str(raised), raised)


def _plan(
    target: str | New, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[New], list[Call]]:
    """Return the objects to make and the calls: a function, a method, or only the object itself.

    Raises:
        TypeError: an argument is a recipe, which would not cross to another process.
    """
    if any(isinstance(value, New) for value in (*args, *kwargs.values())):
        raise TypeError(f"{target!s:.60}: only the arguments of `lab.new` may be recipes")
    if isinstance(target, str):
        return [], [Call(target, args, kwargs)]
    return [target], [Call(args[0], args[1:], kwargs)] if args else []


def _as_call(call: Call | tuple[Any, ...] | str) -> Call:
    if isinstance(call, Call):
        return call
    if isinstance(call, str):
        return Call(call, None)
    return _call_of((call[0], call[1:], _NO_OPTIONS, 0))
