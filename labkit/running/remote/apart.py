"""A hunt on a student's machine: each run has processes of its own, as at the grader's.

`labkit.running.remote.fork_server` has the other side.
"""

import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from labkit.course.hunt import Code
from labkit.errors import CourseError
from labkit.running import platform
from labkit.running.hunting.verdict import FUSE, Verdict, VerdictKind, fuse_blown
from labkit.running.remote.fork_server import IMPLEMENTATION, TESTS, Exchange, Line

_ROOT = str(Path(__file__).resolve().parents[3])
_PROGRAM = """\
import sys
sys.path[:] = {path!r}
from labkit.running.remote.fork_server import serve
serve({number})
"""
# A process that runs so much longer than its own time limit, in real time, has lost that limit.
_MORE_SECONDS = 10.0
_LEAST_SECONDS = 0.01


@dataclass(eq=False)
class _Pair:
    """The two processes of a run: the sockets to them, their numbers, and the processor time that
    the implementation has used so far, in microseconds.
    """

    implementation: Line
    tests: Line
    numbers: tuple[int, int]
    used: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the processes have been ended."""
        return self.tests.end.fileno() < 0

    def end(self) -> None:
        """End both processes."""
        for line in (self.tests, self.implementation):
            line.end.close()
        for number in self.numbers:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


class Apart:
    """Runs tests on implementations: see `labkit.running.hunting.rules.Run`. Use it with `with`.

    Args:
        source: of the student's tests; it can be imported.
        shown: its file's name in messages.
        importable: the modules that it may import, besides Python's library.
        fuse: the seconds of processor time that the tests of a run may use.
        after_run: called after each test, with the kind of exception that it ended with, or "".
    """

    def __init__(
        self,
        source: bytes,
        shown: str,
        importable: Collection[str],
        fuse: float = FUSE,
        after_run: Callable[[str], object] = lambda raised: None,
    ) -> None:
        tests = [source, shown, [*importable]]
        self._load = ["load", *tests]
        self._fuse = fuse
        self._after_run = after_run
        # By test, the requests of its longest run so far.
        self._requests: dict[str, list[bytes]] = {}
        # By implementation and test, an earlier run.
        self._earlier: dict[tuple[str, str], list[Exchange]] = {}
        self._forking = Lock()
        # Two threads in `ast.parse` fail each other in Python 3.11 and 3.12: `SystemError: AST
        # constructor recursion depth mismatch`.
        self._metering = Lock()
        self._pairs: set[_Pair] = set()
        self._control, theirs = socket.socketpair()
        path = [_ROOT, *(folder for folder in sys.path if folder)]
        program = _PROGRAM.format(path=path, number=theirs.fileno())
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", program],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
                cwd="/",
                env=_environment(),
            )
        assert self._server.stdin is not None
        # A server that cannot be started says why itself.
        with suppress(BrokenPipeError), self._server.stdin as server:
            server.write(marshal.dumps(tests))

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes; a run that is not over fails."""
        for pair in [*self._pairs]:
            pair.end()
        with self._forking:
            self._control.close()
        self._server.wait()

    def __call__(self, code: Code, tests: Sequence[str]) -> dict[str, Verdict]:
        """Run tests on an implementation."""
        verdicts: dict[str, Verdict] = {}
        with self._metering:
            program = code.metered_program()
        source = [program, [*code.target.names]]
        left, pair = self._fuse, None
        try:
            for test in tests:
                # A process that is gone is replaced for the tests after it.
                earlier = self._earlier.get((code.name, test), [])
                renew: list[Any] = ["renew", self._requests.get(test, []), earlier]
                if pair is None:
                    renew += source
                pair = pair or self._start()
                left_here = max(left, _LEAST_SECONDS)
                verdict = verdicts[test] = self._run(pair, renew, code.name, test, left_here)
                left -= verdict.seconds
                if verdict.kind is VerdictKind.ENDLESS:
                    break
                if pair.is_over:
                    self._pairs.discard(pair)
                    pair = None
        finally:
            if pair is not None:
                pair.end()
                self._pairs.discard(pair)
        return verdicts

    def _start(self) -> _Pair:
        here_i, there_i = socket.socketpair()
        here_t, there_t = socket.socketpair()
        between = socket.socketpair()
        with there_i, there_t, between[0], between[1], self._forking:
            numbers = (
                self._fork(IMPLEMENTATION, there_i, between[0]),
                self._fork(TESTS, there_t, between[1]),
            )
        pair = _Pair(Line(here_i), Line(here_t), numbers)
        self._pairs.add(pair)
        pair.tests.send(self._load)
        return pair

    def _fork(self, role: bytes, *ends: socket.socket) -> int:
        socket.send_fds(self._control, [role], [end.fileno() for end in ends])
        number = self._control.recv(8)
        if not number:
            raise CourseError("the processes of the hunt cannot be started: see above")
        return int.from_bytes(number, "big")

    def _run(self, pair: _Pair, renew: list[Any], code: str, test: str, left: float) -> Verdict:
        pair.tests.end.settimeout(left * platform.REAL_TO_PROCESSOR + _MORE_SECONDS)
        try:
            if failure := _answer_to(pair.implementation, renew):
                raise CourseError(f"a part of the course cannot be used: {failure}")
            if len(renew) > 3 and (failure := pair.tests.receive()):
                return Verdict(VerdictKind.FAILED, failure)
            kind, why, raised, used, made = _answer_to(pair.tests, ["run", test, int(left * 1e6)])
            reason, in_all, *counts, done = _answer_to(pair.implementation, ["excess", made])
        except TimeoutError:
            pair.end()
            return fuse_blown(self._fuse)
        except (EOFError, OSError):
            pair.end()
            return Verdict(VerdictKind.FAILED, "the process ended before it answered")
        if done:
            self._earlier[code, test] = done
            requests = [request for request, *_ in done]
            self._requests[test] = max(self._requests.get(test, []), requests, key=len)
        self._after_run(raised)
        if kind == VerdictKind.ENDLESS.value:
            return fuse_blown(self._fuse)
        seconds = (used + in_all - pair.used) / 1e6
        pair.used = in_all
        if reason:
            return Verdict(VerdictKind.FAILED, reason, seconds, *counts)
        return Verdict(VerdictKind(kind), why, seconds, *counts)


def _answer_to(line: Line, request: list[Any]) -> Any:
    line.send(request)
    return line.receive()


def _environment() -> dict[str, str]:
    """Return the environment of the processes, as at the grader's: it tells nothing of the hunt."""
    own = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    return own | {name: os.environ[name] for name in ["LD_LIBRARY_PATH"] if name in os.environ}
