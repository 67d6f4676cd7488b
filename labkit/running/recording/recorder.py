"""The recorder: counts the lines that some files run, and keeps some of them as steps.

It uses `sys.settrace`. Code of the course that traces the code as well, for example to interleave
threads, goes on working: while a recorder is active, `sys.settrace` adds a second tracer.

But: it decides nothing. The code under test can fool it, as it runs in the same process. And
recursion up to Python's limit ends the recording, because each call of the recorder needs some of
the stack.
"""

import gc
import inspect
import io
import opcode
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from types import CodeType, FrameType, TracebackType
from typing import Any
from unittest import mock

from labkit.running.limits.time_limit import OverdueError
from labkit.running.recording.output import Output
from labkit.running.recording.recording import EXCEPTION, LINE, RETURN, YIELD, Step
from labkit.running.recording.values import (
    attributes_of,
    name_of,
    size_of,
    text_of_error,
    text_of_value,
    weight_of,
)

MOST_STEPS = 20_000
_MOST_VALUES = 40
_MOST_PRINTED = 2_000
_YIELD = opcode.opmap["YIELD_VALUE"]
_IS_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# The class of a value that an asynchronous generator yields, which refers to the value only.
_WRAPPED = "async_generator_wrapped_value"
# The calls that copying the values of a step may take, beyond Python's limit of recursion.
_ROOM = 100
# How often the clock is read, in events.
_OFTEN = 256

Trace = Callable[[FrameType, str, Any], Any]
# A line: the number of its file, 0 for the file under test, and the number of the line.
Place = tuple[int, int]


class RecordedEnoughError(BaseException):
    """The recorder has reached a limit. No `except Exception` swallows it."""


@dataclass(slots=True)
class _Frame:
    """A call of a function of the file, which may be suspended."""

    number: int
    code: CodeType
    depth: int
    part: int
    values: dict[str, str] | None = None
    step: Step | None = None
    place: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)
    is_suspended: bool = False


@dataclass(slots=True)
class _Thread:
    """A thread that runs functions of the file.

    Attributes:
        second: the tracer that code of the course has set in this thread.
    """

    number: int
    stack: list[_Frame] = field(default_factory=list)
    second: Trace | None = None


class Recorder:
    """Records the functions of some files while `active`.

    Args:
        filenames: the files' names in tracebacks: the file under test, then the student's parts.
        first: so many events are only counted; the next events are kept as steps.
        seconds: the most processor time.
        most: the most events; None if there is no limit.
        keep: the most steps.
        place: another process may read where the recorder is: item 0 is the number of events so
            far, item 1 is 1 while the recorder ends the code.
        at_end: called instead of ending the code if a limit is reached.
        starts: the number of events at the start of each call, if an earlier run has counted them.
            Then the calls before the first step run without the recorder.

    Attributes:
        call: the number of the test's call.
        starts: the number of events at the start of each call.
        total: the number of events: lines, returns and exceptions.
        lines: how often each line ran, by the number of its file and its own.
        by_call: how many lines ran, by call.
        copied: the characters, bytes and items of the new values that each line made, among the
            recorded steps; by line as in `lines`.
        steps: the recorded steps.
        errors: the number of the exception of each step, the same wherever it passes through; 0 for
            none.
        sizes: the sizes of the values that changed in each step, by name: before and after, and the
            identity of the value after; a returned value has the name "".
        readings: the numbers of the steps that ran while the test read the held text after a call.
        awaits: the numbers of the steps in which a coroutine waits.
        is_over: whether a limit ended the recording.
    """

    def __init__(
        self,
        filenames: Sequence[str],
        first: int,
        seconds: float,
        most: int | None = None,
        keep: int = MOST_STEPS,
        place: MutableSequence[int] | None = None,
        at_end: Callable[[], None] | None = None,
        starts: Mapping[int, int] | None = None,
    ) -> None:
        self._parts = {name: number for number, name in enumerate(filenames)}
        self._keep_steps = keep
        self._first = first
        self._most = most
        self._place = [0, 0] if place is None else place
        self._at_end = at_end
        self._end = time.process_time() + seconds
        self._known = starts or {}
        self._is_waiting = False
        self.call = -1
        self.starts: dict[int, int] = {}
        self.total = 0
        self.lines: Counter[Place] = Counter()
        self.by_call: Counter[int] = Counter()
        self.copied: Counter[Place] = Counter()
        self.steps: list[Step] = []
        self.errors: list[int] = []
        self._exceptions = 0
        # By identity, which a later exception may have again.
        self._numbers_of_errors: dict[int, int] = {}
        self.sizes: list[dict[str, tuple[int, int, int]]] = []
        self.readings: set[int] = set()
        self._is_reading = False
        self.awaits: set[int] = set()
        self.is_over = False
        self._threads: dict[int, _Thread] = {}
        self._room = threading.Lock()
        self._frames: dict[int, _Frame] = {}
        self._numbers = 0
        self._has_second = False
        self._set = sys.settrace

    @contextmanager
    def active(self) -> Iterator[None]:
        """Record in the body; what the code prints is part of the recording."""
        output = Output(self._print)
        before = sys.gettrace(), threading.gettrace()
        with (
            mock.patch.object(sys, "settrace", self._set_second),
            mock.patch.object(sys, "stdin", io.StringIO()),
            redirect_stdout(output),
            redirect_stderr(output),
        ):
            self._is_waiting = self._known.get(0, self._first + 1) <= self._first
            if not self._is_waiting:
                self._trace()
            try:
                yield
            finally:
                self._place[1] = 0
                self._set(before[0])
                threading.settrace(before[1])
                self.is_over = True

    def begin_call(self, number: int) -> None:
        """Note that a call of the test begins."""
        self.call = number
        self._is_reading = False
        if self._is_waiting:
            self.total = self._place[0] = self._known[number]
            if self._known.get(number + 1, self._first + 1) > self._first:
                self._is_waiting = False
                self._trace()
        self.starts[number] = self.total

    def begin_reading(self) -> None:
        """Note that the call is over, and that the test reads the held text."""
        self._is_reading = True

    def has_threads(self) -> bool:
        """Return whether several threads ran functions of the files."""
        return len(self._threads) > 1

    def _print(self, text: str) -> None:
        """Add an output of the code to the last step."""
        if self.steps:
            self.steps[-1].printed = (self.steps[-1].printed + text)[:_MOST_PRINTED]

    def _trace(self) -> None:
        threading.settrace(self._begin)
        self._set(self._begin)

    def running(self) -> list[int]:
        """Return the numbers of the last steps of the functions that have not returned, one for
        each thread.
        """
        tops = [thread.stack[-1].step for thread in self._threads.values() if thread.stack]
        places = {id(step): number for number, step in enumerate(self.steps)}
        return [places[id(step)] for step in tops if id(step) in places]

    def _set_second(self, tracer: Trace | None) -> None:
        is_own = getattr(tracer, "__self__", None) is self
        self._thread().second = None if is_own else tracer
        self._has_second = self._has_second or not (is_own or tracer is None)
        if is_own:
            # A thread that begins, or a second tracer that ends.
            self._set(self._begin)

    def _thread(self) -> _Thread:
        ident = threading.get_ident()
        if ident not in self._threads:
            self._threads[ident] = _Thread(len(self._threads))
        return self._threads[ident]

    def _begin(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace a function that begins or goes on."""
        part = self._parts.get(frame.f_code.co_filename)
        if part is None and not self._has_second:
            # Slow code may call functions of other files millions of times.
            return None
        thread = self._thread()
        second = None if thread.second is None else thread.second(frame, event, argument)
        if self.is_over or part is None or frame.f_code.co_name == "<module>":
            return second
        known = self._frames.get(id(frame))
        if known is None or known.code is not frame.f_code or not known.is_suspended:
            self._numbers += 1
            known = self._frames[id(frame)] = _Frame(self._numbers, frame.f_code, 0, part)
        known.is_suspended = False
        thread.stack.append(known)
        known.depth = len(thread.stack)

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal second
            self._event(thread, known, frame, event, argument)
            if second is not None and thread.second is not None:
                second = second(frame, event, argument)
            return trace

        return trace

    def _event(
        self, thread: _Thread, known: _Frame, frame: FrameType, event: str, argument: Any
    ) -> None:
        if self.is_over:
            return
        if event == EXCEPTION and issubclass(argument[0], OverdueError | RecordedEnoughError):
            # The functions that are running now are those to look at.
            self.is_over = True
            return
        self.total += 1
        self._place[0] = self.total
        if event == LINE:
            self.lines[known.part, frame.f_lineno] += 1
            self.by_call[self.call] += 1
        if self.total > self._first and len(self.steps) < self._keep_steps:
            # The limit is that of all threads: only one of them raises it at a time.
            is_first, limit = self._room.acquire(blocking=False), sys.getrecursionlimit()
            try:
                if is_first:
                    sys.setrecursionlimit(limit + _ROOM)
                self._keep(thread, known, frame, event, argument)
            finally:
                if is_first:
                    try:
                        sys.setrecursionlimit(limit)
                    finally:
                        self._room.release()
        if event == RETURN:
            thread.stack.pop()
            known.is_suspended = _yields(frame)
            if not known.is_suspended:
                self._frames.pop(id(frame), None)
        is_late = self.total % _OFTEN == 0 and time.process_time() > self._end
        if is_late or self.total == self._most:
            self.is_over = True
            if self._at_end is not None:
                self._at_end()
            self._place[1] = 1
            raise RecordedEnoughError

    def _keep(
        self, thread: _Thread, known: _Frame, frame: FrameType, event: str, argument: Any
    ) -> None:
        """Keep the event as a step, and note the changes by the last line of its function."""
        if event == RETURN and known.step is not None and known.step.event == EXCEPTION:
            # The exception is the last step of this function.
            return
        objects: dict[str, Any] = {}
        values = _values(frame, objects)
        step = Step(frame.f_lineno, event, frame.f_code.co_name, known.number, known.depth,
                    thread.number, self.call, part=known.part)  # fmt: skip
        if known.values is None or known.step is None:
            step.values = values
            sizes = {name: size_of(value) for name, value in objects.items()}
        else:
            before, sizes = known.values, known.sizes
            changed = {name: (before.get(name, ""), text) for name, text in values.items()
                       if before.get(name) != text}  # fmt: skip
            known.step.changes.update(changed)
            now = {name: size_of(objects[name]) for name in changed}
            # The items that a list had before it grew are not copied.
            earlier = {
                name: min(sizes.get(name, 0), size) for name, size in now.items()
                if known.objects.get(name) == id(objects[name])
            }  # fmt: skip
            self.sizes[known.place].update(
                (name, (sizes.get(name, 0), size, id(objects[name]))) for name, size in now.items()
            )
            sizes.update(now)
            # Another name of the same value is not a copy.
            old = {id(value) for name, value in objects.items() if name not in changed}
            self.copied[known.part, known.step.line] += sum(
                weight_of(objects[name]) - earlier.get(name, 0)
                for name in changed
                if id(objects[name]) not in old
            )
        error = 0
        if event == EXCEPTION:
            error = self._number_of(argument[1], argument[2])
            step.value = text_of_error(argument[1])
        elif event == RETURN:
            step.event = YIELD if _yields(frame) else RETURN
            if step.event == YIELD and frame.f_code.co_flags & _IS_ASYNC:
                is_wrapped = name_of(type(argument)) == _WRAPPED
                argument = gc.get_referents(argument)[0] if is_wrapped else argument
                if not is_wrapped:
                    self.awaits.add(len(self.steps))
            step.value = text_of_value(argument)
        known.values, known.step, known.sizes, known.place = values, step, sizes, len(self.steps)
        known.objects = {name: id(value) for name, value in objects.items()}
        if self._is_reading:
            self.readings.add(len(self.steps))
        self.steps.append(step)
        self.sizes.append({"": (0, size_of(argument), id(argument))} if event == RETURN else {})
        self.errors.append(error)

    def _number_of(self, error: BaseException, traceback: TracebackType | None) -> int:
        """Return the number of an exception: a new one if no recorded function passed it on."""
        inner = traceback and traceback.tb_next
        while inner is not None and inner.tb_frame.f_code.co_filename not in self._parts:
            inner = inner.tb_next
        if inner is None or id(error) not in self._numbers_of_errors:
            self._exceptions += 1
            self._numbers_of_errors[id(error)] = self._exceptions
        return self._numbers_of_errors[id(error)]


def _yields(frame: FrameType) -> bool:
    """Return whether a function that leaves is a generator or a coroutine that will go on."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _YIELD


def _values(frame: FrameType, objects: dict[str, Any]) -> dict[str, str]:
    """Return the local values of a function as text, with the attributes of `self`; add the values
    themselves to `objects`.
    """
    values: dict[str, str] = {}
    for name, value in [*frame.f_locals.items()][:_MOST_VALUES]:
        if name.startswith("."):
            continue
        own = {} if name != "self" else attributes_of(value)
        named = {f"self.{key}": item for key, item in own.items()} if own else {name: value}
        for key, item in named.items():
            values[key] = text_of_value(item)
            objects[key] = item
    return values
