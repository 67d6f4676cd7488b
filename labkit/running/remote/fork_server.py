"""The processes of a hunt on a student's machine: one for the tests, one for an implementation.

A fork server has imported all that they need and knows nothing of the hunt. For each run it forks
both processes, which receive a source each and talk to each other directly:

    pytest -- the tests' source, the test to run --> tests
       |                                               | requests, as `remote.proxies` sends them
       +-- the implementation's source -------> implementation

So a test knows as little as at the grader's, and remembers as little. But there are no walls here:
a test can write files that the next run reads.
"""

import marshal
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

from labkit.errors import LoadFailure
from labkit.running.drive import perform
from labkit.running.hunting.asserts import with_values
from labkit.running.hunting.rules import MAKE, plan
from labkit.running.hunting.verdict import (
    MOST_SHOWN,
    Verdict,
    VerdictKind,
    endless,
    verdict_of,
)
from labkit.running.hunting.work import MOST_CALLS, WORK
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.remote.parts import Parts
from labkit.running.remote.proxies import Make, Proxies
from labkit.running.remote.wire import HEAD, MOST_READ, PART, WireError, pack, unpack
from labkit.running.source import compile_source, load_source

TESTS, IMPLEMENTATION = b"t", b"i"
# A request and its answer; why the work was too much by then, or ""; the steps that it had taken,
# and those that it could take.
Exchange = tuple[bytes, bytes, str, int, int]
# The most bytes of the requests and answers of a run that are repeated in a later one.
_MOST_BYTES = MOST_READ << 4
# So many answers are sent ahead at a time.
_MOST_AHEAD = 1_000
_NO_DEBUGGER = "breakpoint() needs a debugger's run: make lab N=12 ARGS=--pdb"


class Line:
    """One end of a socket that carries values that `marshal` knows.

    But: its other end is trusted. A student's code in the other process can do anything to the
    student's own machine anyway.
    """

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def send(self, value: Any) -> None:
        """Send a value.

        Raises:
            OSError: the other side is gone.
        """
        data = marshal.dumps(value)
        self.end.sendall(HEAD.pack(len(data), PART) + data)

    def receive(self) -> Any:
        """Return the next value.

        Raises:
            EOFError: the other side is gone.
        """
        data = self._more()
        while len(data) < HEAD.size:
            data += self._more()
        end = HEAD.size + HEAD.unpack_from(data)[0]
        if len(data) < end:
            parts, size = [data], len(data)
            while size < end:
                parts.append(self._more())
                size += len(parts[-1])
            data = b"".join(parts)
        return marshal.loads(data[HEAD.size :])

    def _more(self) -> bytes:
        try:
            data = self.end.recv(MOST_READ)
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError("the process ended before it answered")
        return data


def serve(number: int) -> None:
    """Fork a process for each pair of sockets that arrives, until the other side is gone.

    The tests' source arrives on standard input. It is compiled here once, and run in each process.

    Args:
        number: of the file that is the control socket.
    """
    # Ctrl-C is for pytest, which closes the sockets; no process waits for its forks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    source, shown, importable = marshal.load(sys.stdin.buffer)
    # Each process of the tests says what is wrong.
    with suppress(LoadFailure):
        compile_source(source, shown, shown, importable, with_values)
    control = socket.socket(fileno=number)
    while True:
        role, ends, _, _ = socket.recv_fds(control, 1, 2)
        if not role:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            _become(role, *(Line(socket.socket(fileno=end)) for end in ends))
        for end in ends:
            os.close(end)
        control.sendall(pid.to_bytes(8, "big"))


def _become(role: bytes, pytest: Line, other: Line) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if role == TESTS:
            _Tests(other).serve(pytest)
        else:
            _Implementation().serve(pytest, other)
    except (EOFError, OSError):
        pass
    finally:
        os._exit(0)


def _microseconds() -> int:
    return int(time.process_time() * 1e6)


class _Implementation:
    """The process of an implementation: it answers requests of the tests.

    A test makes nearly the same requests in each run. So the answers to the requests that followed
    in an earlier run are sent ahead. If the test then asks something else, the implementation is
    imported again, and only the requests that the test has made are repeated.

    An implementation gives the same answers to the same requests. So in its later runs the answers
    of an earlier run are repeated, and it is imported only if the test makes another request.
    """

    def __init__(self) -> None:
        self._source: tuple[bytes, list[str]] = (b"", [])
        self._parts = Parts(partial(getattr, None), ())
        # The requests that are expected, and whether those so far are the same.
        self._expected: list[bytes] = []
        self._is_as_expected = True
        # An earlier run of this test on this implementation, and whether it is being repeated.
        self._earlier: list[Exchange] = []
        self._repeats = False
        self._done: list[Exchange] = []

    def serve(self, pytest: Line, tests: Line) -> None:
        """Answer both sides until one of them is gone."""
        poll = select.poll()
        poll.register(tests.end, select.POLLIN)
        poll.register(pytest.end, select.POLLIN)
        while True:
            if pytest.end.fileno() in [end for end, _ in poll.poll()]:
                do, *content = pytest.receive()
                pytest.send(self._renew(*content) if do == "renew" else self._excess(*content))
                continue
            made, request = tests.receive()
            tests.send(self._answers(made, request))

    def _answers(self, made: int, request: bytes) -> list[tuple[bytes, bytes]]:
        """Return a request and its answer, and then those that are expected to follow.

        Args:
            made: how many requests the test has made before.
            request: the request.
        """
        if made < len(self._done):
            self._go_back(made)
        pairs = [self._answer(request)[:2]]
        size = 0
        while self._is_as_expected:
            following = self._expected[len(self._done) : len(self._done) + 1]
            # Most tests of a wrong implementation end early, so the first answers are few.
            most = min(_MOST_AHEAD, 1 + made)
            if not following or len(pairs) >= most or size > MOST_READ or self._done[-1][2]:
                break
            pairs.append(self._answer(following[0])[:2])
            size += len(pairs[-1][1])
        return pairs

    def _answer(self, request: bytes) -> Exchange:
        place = len(self._done)
        self._is_as_expected &= self._expected[place : place + 1] == [request]
        if self._repeats and place < len(self._earlier) and self._earlier[place][0] == request:
            self._done.append(self._earlier[place])
            return self._done[-1]
        if self._repeats:
            self._compute(place)
        answer = self._parts.answer(unpack(request))
        try:
            data = pack(answer)[HEAD.size :]
        except WireError as error:
            data = pack(["raised", "ValueError", f"{error}"])[HEAD.size :]
        reason = WORK.reason if WORK.is_over else ""
        self._done.append((request, data, reason, WORK.steps, WORK.allowed))
        return self._done[-1]

    def _go_back(self, made: int) -> None:
        """Undo all answers after the first `made`."""
        if self._repeats:
            del self._done[made:]
        else:
            self._compute(made)
        requests = [request for request, *_ in self._done]
        self._is_as_expected = requests == self._expected[:made]

    def _compute(self, made: int) -> None:
        """Import the implementation, and have it answer the first requests itself."""
        self._repeats = False
        done, self._done = self._done[:made], []
        self._import()
        for request, *_ in done:
            self._answer(request)

    def _renew(self, expected: list[bytes], earlier: list[Exchange], *source: Any) -> str:
        """Import a source, or the previous one again, and begin to count its work.

        Args:
            expected: the requests of an earlier run of the test.
            earlier: an earlier run of the test on this implementation, if there is one.
            source: the source, and the names that it has.

        Returns:
            Why it cannot be imported, or "".
        """
        self._source = source or self._source
        self._expected, self._is_as_expected = expected, True
        self._earlier, self._repeats = earlier, bool(earlier)
        self._done = []
        return "" if self._repeats else self._import()

    def _import(self) -> str:
        program, names = self._source
        try:
            # The previous test may have used up all its steps.
            with WORK.uncounted():
                # The gate of the pools checks its imports.
                module = load_source(program, "code", "code", "pool.code", None)
        except LoadFailure as failure:
            return f"{failure}"
        self._parts = Parts(partial(getattr, module), names)
        WORK.begin(MOST_CALLS)
        return ""

    def _excess(self, made: int) -> list[Any]:
        """Return the result of a test that has made so many requests.

        Returns:
            Why the implementation's work was too much, or ""; its processor time in microseconds;
            its steps, and those that it could take; and the requests with their answers, unless
            they were repeated.
        """
        *_, reason, steps, allowed = self._done[made - 1] if made else ("", 0, 0)
        done = [] if self._repeats else self._done[:made]
        size = sum(len(request) + len(answer) for request, answer, *_ in done)
        return [reason, _microseconds(), steps, allowed, done if size < _MOST_BYTES else []]


class _Tests:
    """The process of a student's tests."""

    def __init__(self, implementation: Line) -> None:
        self._implementation = implementation
        self._module = ModuleType("none")
        self._made = 0
        # Requests and their answers, the next one last.
        self._ahead: list[tuple[bytes, bytes]] = []

    def serve(self, pytest: Line) -> None:
        """Run the tests that are requested until the other side is gone."""
        sys.breakpointhook = _no_debugger
        # The sources are found again for messages, but no module can be imported by its name.
        while True:
            match pytest.receive():
                case ["load", bytes(source), str(shown), list(importable)]:
                    pytest.send(self._load(source, shown, importable))
                case ["run", str(test), int(left)]:
                    begin = _microseconds()
                    verdict, raised = self._run(test, left / 1e6)
                    for stream in (sys.stdout, sys.stderr):
                        stream.flush()
                    facts = verdict.kind.value, verdict.why.encode("utf-8", "replace").decode()
                    pytest.send([*facts, raised, _microseconds() - begin, self._made])

    def _load(self, source: bytes, shown: str, importable: list[str]) -> str:
        try:
            self._module = load_source(source, shown, shown, "hunting", importable, with_values)
        except LoadFailure as failure:
            return f"{failure}"
        return ""

    def _run(self, test: str, seconds: float) -> tuple[Verdict, str]:
        """Return the verdict of a test, and the kind of exception that it ended with, or ""."""
        self._made, self._ahead = 0, []
        # With numbers of its own for objects, the test makes the same requests in each run.
        there = {MAKE: partial(Make, Proxies(self._ask)), test: vars(self._module).get(test)}
        try:
            with time_limit(seconds):
                trace = perform(there.__getitem__, plan(test), [], "")
        except OverdueError:
            return endless("it runs for too long"), ""
        except BaseException as error:
            what = f"{type(error).__name__}: {error!s:.{MOST_SHOWN}}"
            return Verdict(VerdictKind.FAILED, what), type(error).__name__
        raised = trace.raised
        return verdict_of(raised), "" if raised is None else raised.kind

    def _ask(self, request: list[Any]) -> Any:
        try:
            data = pack(request)[HEAD.size :]
        except WireError as error:
            raise TypeError(f"{error}") from None
        if not self._ahead or self._ahead[-1][0] != data:
            try:
                self._implementation.send([self._made, data])
                self._ahead = self._implementation.receive()[::-1]
            except (EOFError, OSError):
                # An implementation that crashes ends the test, whatever the test catches.
                os._exit(0)
        self._made += 1
        return unpack(self._ahead.pop()[1])


def _no_debugger(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(_NO_DEBUGGER)
