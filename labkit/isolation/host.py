"""The trusted end of the pipe: starts workers, sends requests, stops misbehaving workers."""

import itertools
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from labkit.errors import CourseError, InfrastructureError
from labkit.isolation.meter import Meter, OwnTime
from labkit.isolation.sampling import Sample
from labkit.isolation.sandbox import Sandbox, Worker
from labkit.running.drive import MOST_CHANGES
from labkit.running.limits.time_limit import processor_seconds
from labkit.running.recording.case_recording import Facts
from labkit.running.recording.reading import unpacked
from labkit.running.recording.recording import Recording
from labkit.running.recording.runs import CaseRun
from labkit.running.remote.wire import (
    ANSWER,
    HEAD,
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_READ,
    PART,
    WireError,
    kind_of,
    pack_calls,
    pack_request,
    step_of,
    unpack,
)
from labkit.running.result_kind import ResultKind
from labkit.running.source import Given
from labkit.running.trace import Call, Failure, New, Raised, Trace

# The limit for all answers in one test.
_MOST_BYTES_OF_TEST = 32 << 20
# How often to look at the meter.
_TICK_SECONDS = 0.25
# How long a process that closed its pipe may take to end.
_END_SECONDS = 1.0
_IMPORT_LIMIT = 5.0
# Signals with possible outside causes: people, or a system without memory.
_FOREIGN = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM)
_T = TypeVar("_T")
# A run: the objects to make, the calls, and the attribute to read after each call.
Plan = tuple[Sequence[New], Sequence[Call], str]


class WorkerError(Exception):
    """The worker did not answer a request properly, and was stopped. `kind` is of a `Result`."""

    def __init__(self, kind: ResultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Sources:
    """The sources for a worker: see `labkit.isolation.worker.Modules`.

    Attributes:
        code: the main source as code, its imports checked; b"" if it has not been compiled.
    """

    main: str
    modules: dict[str, tuple[str, str, bytes]]
    parts: dict[str, str] = field(default_factory=dict)
    elsewhere: list[str] = field(default_factory=list)
    given: Given = field(default_factory=Given)
    code: bytes = b""

    @property
    def request(self) -> tuple[Any, ...]:
        """The arguments of a worker's `load`."""
        facts = self.main, self.modules, self.parts, self.elsewhere
        return *facts, tuple(self.given), self.code


class Host:
    """A submission in a worker, which is started when it is needed.

    A worker that dies, hangs, floods or breaks the protocol fails the current test; the next test
    gets another worker. Only a submission that cannot be imported is not tried again.

    Args:
        sandbox: starts workers.
        sources: the sources of the submission.
        parts: the host of the parts that the submission lacks, if any. It serves only this host.

    Attributes:
        killed: the message of the `WorkerError` for each worker that was ended by a signal which
            may have come from outside.
        own_time: the time that the submission may cost this side; use answers within its `limit`.
    """

    def __init__(
        self, sandbox: Sandbox, sources: Sources, parts: "PartsHost | None" = None
    ) -> None:
        self._parts = parts
        self._sandbox = sandbox
        self._sources = sources
        self._worker: Worker | None = None
        self._ends = (-1, -1)
        self._poll = select.poll()
        self._numbers = itertools.count(1)
        self._imported = False
        # Whether the import itself reported its failure, and not the end of the process.
        self._load_answered = False
        self._hopeless: str | None = None
        self._meter = Meter()
        self._limit = 0.0
        self._next_look = 0.0
        self._bytes_left = 0
        self.killed: list[str] = []
        self.own_time = OwnTime()
        self._sample = Sample("")

    def begin(self, limit: float, seed: str = "") -> None:
        """Note that a test starts.

        Args:
            limit: the seconds of CPU time that it may take; its parts elsewhere may take as many.
            seed: the seed that selects the runs to send call by call.
        """
        self._limit = limit
        self._sample = Sample(seed)
        self._bytes_left = _MOST_BYTES_OF_TEST
        if self._parts is not None:
            self._parts.begin(limit)
        if self._worker is not None:
            self._measure(limit)

    def end(self) -> None:
        """Note that the test is over.

        Raises:
            WorkerError: the test took longer than its limit.
        """
        try:
            self._look()
        finally:
            self._meter.end()

    def load(self) -> str | None:
        """Let the submission be imported, once for each worker; return why that failed, or None.

        Raises:
            InfrastructureError: no worker can be started.
            WorkerError: the submission has used up its sleep.
        """
        if self._hopeless is None and self._parts is not None:
            self._meter.waits_for = self._parts.start()
        if self._hopeless is not None or (self._imported and self._worker is not None):
            return self._hopeless
        if self._meter.exhausted:
            raise WorkerError(
                ResultKind.TIMEOUT, "the submission has slept for all the time it has"
            )
        if self._worker is None:
            self._worker = self._start()
        self._measure(_IMPORT_LIMIT)
        shown = self._sources.modules[self._sources.main][0]
        try:
            (failure,) = self._ask(*self._load_request())
            self._load_answered = True
            if failure is not None and type(failure) is not str:
                raise ValueError("a text was expected")
            self._look()
        except WorkerError as error:
            endless = error.kind is ResultKind.TIMEOUT
            why = "its code outside functions does not end, as in an endless loop; "
            failure = f"{shown} cannot be imported: {why if endless else ''}{error}"
        except ValueError as error:
            failure = f"its answer has the wrong shape ({error})"
        self._meter.end()
        if failure is not None:
            self.close()
            self._hopeless = failure.strip()[:MOST_CHARACTERS] or f"{shown} cannot be imported"
            return self._hopeless
        self._imported = True
        self._measure(self._limit)
        return None

    def compile(self) -> bytes:
        """Return the main source as code, for `Sources.code`, before any of it has run.

        It is b"" if the source cannot be compiled, which `load` explains.

        Raises:
            InfrastructureError: no worker can be started.
            WorkerError: there is no answer.
        """
        if self._worker is None:
            self._worker = self._start()
        self._measure(_IMPORT_LIMIT)
        (code,) = self._ask("compile", *self._sources.request)
        self._meter.end()
        if type(code) is not bytes:
            raise self._broken("bytes were expected")
        return code

    def _load_request(self) -> tuple[Any, ...]:
        """Return the request that has the sources imported."""
        return ("load", *self._sources.request)

    def perform(self, new: Sequence[New], calls: Sequence[Call], watch: str) -> Trace:
        """Have a run carried out; see `labkit.running.drive.perform`.

        Raises:
            WorkerError: the answer does not follow the protocol, or there is none.
        """
        call_counts = self._sample.call_counts(len(calls))
        if call_counts is None:
            return self.perform_at_once((new, calls, watch))
        return self.perform_in_rounds((new, calls, watch), call_counts)

    def perform_at_once(self, plan: Plan) -> Trace:
        """Have a run carried out at one round trip.

        Raises:
            WorkerError: as `perform` does.
        """
        new, calls, watch = plan
        return self._shaped(_trace, *plan, *self._ask("perform", *pack_calls(new, calls), watch))

    def perform_in_rounds(self, plan: Plan, call_counts: Sequence[int]) -> Trace:
        """Have a run carried out so that the worker receives some calls only when it has answered
        the earlier calls.

        Args:
            plan: the run.
            call_counts: how many calls to send in each round.

        Raises:
            WorkerError: as `perform` does.
        """
        (new, calls, watch), done = plan, 0
        whole = Trace(tuple(new), [])
        for count in call_counts:
            made, called = () if done else new, calls[done : done + count]
            answer = self._ask("go_on" if done else "begin", *pack_calls(made, called), watch)
            trace = self._shaped(_trace, made, called, watch, *answer, [])
            done += count
            whole.steps += trace.steps
            whole.raised = trace.raised
            if trace.raised is not None:
                break
        whole.changed = self._shaped(_changes, *self._ask("end"))
        return whole

    def record(
        self, cases: Sequence[Sequence[CaseRun]], facts: Facts, keep: int, most: int
    ) -> Recording:
        """Have the first of some cases that goes wrong again recorded; what it says is checked.

        Args:
            cases: the runs of each case.
            facts: the facts about the failed test.
            keep: the most steps.
            most: the most characters of the recording.

        Raises:
            WorkerError: the answer is not a recording, or there is none.
        """
        runs = [
            [(*pack_calls(run.new, run.calls), run.watch, run.outcome) for run in case]
            for case in cases
        ]
        (text,) = self._ask("record", runs, tuple(facts), keep, most)
        if type(text) is not str or len(text) > most:
            raise self._broken("its recording is not a text, or too long")
        return self._shaped(unpacked, text)

    def _shaped(self, make: Callable[..., _T], *args: Any) -> _T:
        try:
            return make(*args)
        except (TypeError, ValueError, Failure) as error:
            # An unreadable value fails at every operation on it.
            raise self._broken(f"its answer has the wrong shape ({error})") from None

    def computed(self) -> float:
        """Return how many seconds of processor time the worker has used; 0.0 if there is none."""
        return 0.0 if self._worker is None else processor_seconds(self._worker.number)

    def close(self) -> None:
        """End the worker, and that of its parts."""
        self._meter.end()
        if self._parts is not None:
            self._parts.close()
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.stop()

    def _start(self) -> Worker:
        worker = self._sandbox.start()
        self._ends = (worker.tells, worker.hears)
        for end in self._ends:
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._ends[1], select.POLLIN)
        return worker

    def _measure(self, limit: float) -> None:
        assert self._worker is not None
        self._meter.begin(limit, self._worker.number)
        self._next_look = time.monotonic() + _TICK_SECONDS

    def _look(self) -> None:
        """Stop the worker if it computes or sleeps for too long."""
        self._next_look = time.monotonic() + _TICK_SECONDS
        self.own_time.check()
        why = self._meter.overdue() if self._worker is not None else None
        if why is not None:
            self.close()
            raise WorkerError(ResultKind.TIMEOUT, why)

    def _ask(self, *request: Any) -> list[Any]:
        if self._worker is None:
            raise WorkerError(ResultKind.RAISED, "the process that held the submission is gone")
        number = next(self._numbers)
        self._write(pack_request((number, *request)))
        answer = self._receive()
        if type(answer) is not list or len(answer) < 2 or answer[0] != number:
            raise self._broken("it sent an answer without a request")
        if answer[1] is not None:
            raise self._gone(f"it stopped with {answer[1]!s:.{MOST_CHARACTERS}}")
        return answer[2:]

    def _write(self, frame: bytes) -> None:
        data = memoryview(frame)
        while True:
            try:
                data = data[os.write(self._ends[0], data) :]
            except BlockingIOError:
                writing = select.poll()
                writing.register(self._ends[0], select.POLLOUT)
                writing.poll(_TICK_SECONDS * 1000)
            except OSError:
                raise self._died() from None
            if not data:
                return
            if time.monotonic() > self._next_look:
                self._look()

    def _receive(self) -> Any:
        """Return the next answer. Requests to parts that precede it are passed on."""
        kind, content, rest = self._frame()
        while kind == PART and self._parts is not None and not rest:
            self._write(self._pass_on(self._parts, content))
            kind, content, rest = self._frame()
        if kind != ANSWER or rest:
            raise self._broken("it sent more than one answer")
        try:
            return unpack(content)
        except WireError as error:
            raise self._broken(str(error)) from None

    def _pass_on(self, parts: "PartsHost", request: bytes) -> bytes:
        try:
            return parts.pass_on(request)
        except WorkerError as error:
            said = f"a part that it uses: {error}"
            self.killed += [said] * len(parts.killed)
            parts.killed.clear()
            self.close()
            raise WorkerError(error.kind, said) from None

    def _frame(self) -> tuple[int, bytes, bytes]:
        """Return the kind and the content of the next frame, and the bytes after it."""
        data: bytes | bytearray = self._read()
        while len(data) < HEAD.size:
            data = data + self._read()
        length, kind = HEAD.unpack_from(data)
        if length > MOST_BYTES:
            raise self._broken(f"an answer of {length} bytes; at most {MOST_BYTES} are read")
        self._bytes_left -= length
        if self._bytes_left < 0:
            raise self._broken(f"more than {_MOST_BYTES_OF_TEST >> 20} MB in one test")
        end = HEAD.size + length
        if len(data) < end:
            data = bytearray(data)
            while len(data) < end:
                data += self._read()
        return kind, bytes(data[HEAD.size : end]), bytes(data[end:])

    def _read(self) -> bytes:
        while True:
            ready = self._poll.poll(_TICK_SECONDS * 1000)
            if time.monotonic() > self._next_look:
                self._look()
            if ready:
                data = os.read(self._ends[1], MOST_READ)
                if not data:
                    raise self._died()
                return data

    def _died(self) -> WorkerError:
        assert self._worker is not None
        code = self._worker.ended(_END_SECONDS)
        if code is None:
            return self._gone("the process closed its pipe")
        number = -code
        known = number in signal.valid_signals()
        how = f"signal {number}" if known else f"exit code {code}"
        error = self._gone(f"the process ended ({how}) before it answered")
        if number in _FOREIGN:
            self.killed.append(str(error))
        return error

    def _broken(self, how: str) -> WorkerError:
        return self._gone(f"the process broke the protocol: {how}")

    def _gone(self, why: str) -> WorkerError:
        self.close()
        return WorkerError(ResultKind.RAISED, why)


class PartsHost(Host):
    """The parts that a submission does not bring, in a worker that never has a submission."""

    def __init__(self, sandbox: Sandbox, sources: Sources) -> None:
        super().__init__(sandbox, sources)
        self._meter = Meter(sleeps=False)

    def start(self) -> int:
        """Start the worker if need be, and return the number of its process.

        Raises:
            CourseError: a part cannot be imported.
            InfrastructureError: the worker cannot be started, or dies while it imports.
        """
        failure = self.load()
        if failure is not None or self._worker is None:
            blame = CourseError if self._load_answered else InfrastructureError
            raise blame(f"a part of the course cannot be used: {failure}")
        return self._worker.number

    def pass_on(self, request: bytes) -> bytes:
        """Return the worker's answer to a request, as a frame. Neither is read here.

        Raises:
            WorkerError: the worker does not answer.
        """
        self._write(HEAD.pack(len(request), PART) + request)
        kind, content, rest = self._frame()
        if kind != PART or rest:
            raise self._broken("it sent more than one answer")
        return HEAD.pack(len(content), PART) + content


def _trace(
    new: Sequence[New],
    calls: Sequence[Call],
    watch: str,
    results: Any,
    held: Any,
    raised: Any,
    changed: Any,
) -> Trace:
    if type(results) is not list:
        raise ValueError("a list was expected")
    if held is None and not watch:
        held = itertools.repeat(None, len(results))
    elif type(held) is not list or len(held) != len(results):
        raise ValueError("its held text is missing after a call")
    if len(results) > len(calls) or (raised is None and len(results) != len(calls)):
        raise ValueError("it did not answer each call once")
    steps = [*map(step_of, zip(calls, results, held, strict=False))]
    error = None if raised is None else _raised(*raised)
    return Trace(tuple(new), steps, error, _changes(changed))


def _raised(*fields: Any) -> Raised:
    kind, message, line, call = fields
    if not type(kind) is type(message) is type(line) is type(call) is str:
        raise TypeError("an error is described in texts")
    return Raised(kind_of(kind), *(text[:MOST_CHARACTERS] for text in (message, line, call)))


def _changes(texts: Any) -> list[str]:
    if type(texts) is not list or not all(type(text) is str for text in texts):
        raise TypeError("changed arguments are described in texts")
    return [text[:MOST_CHARACTERS] for text in texts[:MOST_CHANGES]]
