"""The trusted end of the pipe: starts workers, asks them, and stops those that do not behave."""

import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from labkit.isolation.sandbox import Sandbox
from labkit.isolation.wire import HEAD, WireError, flat, pack_request, unpack
from labkit.trace import Call, New, Raised, Step, Trace

_MOST_BYTES = 64 << 20
_START_SECONDS = 30.0
# CPU time decides; wall time only stops what sleeps, and machines may be busy.
_WALL_FACTOR, _WALL_EXTRA = 4, 5.0


class WorkerError(Exception):
    """The worker did not do what it was asked, and was stopped. `kind` is that of a `Result`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Sources:
    """What a worker is told: see `labkit.isolation.modules.Modules`."""

    main: str
    modules: dict[str, tuple[str, str, bytes]]
    parts: dict[str, str] = field(default_factory=dict)


class Host:
    """A submission in a worker, which is started when it is needed.

    One that dies, hangs, floods or breaks the protocol costs the test that asked it; the next test
    gets another.

    Args:
        sandbox: starts workers.
        sources: of the submission.
        slot: a number that no other host has at this time.
    """

    def __init__(self, sandbox: Sandbox, sources: Sources, slot: int) -> None:
        self._sandbox = sandbox
        self._sources = sources
        self._slot = slot
        self._process: Any = None
        self._received = bytearray()
        self._number = 0
        self._wall_seconds = 0.0
        self._cpu_seconds: int | None = None

    def begin(self, limit: float) -> None:
        """Say that a test starts, which may take so many seconds of CPU time."""
        self._cpu_seconds = ceil(limit)
        self._wall_seconds = limit * _WALL_FACTOR + _WALL_EXTRA

    def load(self) -> str | None:
        """Let the submission be imported, once; return why that failed, or None.

        Raises:
            WorkerError: it was not answered.
        """
        failure = self._ask({"do": "load"}).get("failure")
        if failure is not None and type(failure) is not str:
            raise self._broken("its answer has the wrong shape")
        return failure

    def perform(self, new: Sequence[New], calls: Sequence[Call], watch: str) -> Trace:
        """Have a run carried out; see `labkit.drive.perform`.

        Raises:
            WorkerError: it was not answered as it should be.
        """
        told = [
            (name, args, dict(kwargs) if kwargs else {}, number)
            for name, args, kwargs, number in calls
        ]
        answer = self._ask(
            {"do": "perform", "new": [*map(flat, new)], "calls": told, "watch": watch}
        )
        try:
            trace = Trace(tuple(new), [])
            steps, raised = answer["steps"], answer["raised"]
            if raised is not None:
                kind, message, line = map(_text, raised)
                trace.raised = Raised(kind, message, line)
            if len(steps) > len(calls) or (raised is None and len(steps) != len(calls)):
                raise ValueError("it did not answer each call once")
            for call, (result, held) in zip(calls, steps, strict=False):
                trace.steps.append(Step(call, result, held))
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken(f"its answer has the wrong shape ({error})") from None
        return trace

    def close(self) -> None:
        """End the worker."""
        if self._process is not None:
            process, self._process = self._process, None
            self._sandbox.stop(process, self._slot)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        deadline = time.monotonic() + self._wall_seconds
        if self._process is None:
            self._start()
            deadline += _START_SECONDS
        self._number += 1
        request["id"] = self._number
        request["cpu_seconds"] = self._cpu_seconds
        self._cpu_seconds = None
        begun = time.monotonic()
        self._write(pack_request(request), deadline)
        answer = self._read(deadline)
        self._wall_seconds -= time.monotonic() - begun
        if type(answer) is not dict or answer.get("id") != self._number:
            raise self._broken("it answered what was not asked")
        if "broken" in answer:
            raise self._broken(f"it stopped with {answer['broken']!s:.200}")
        return answer

    def _start(self) -> None:
        self._process = self._sandbox.start(self._slot)
        self._received = bytearray()
        for end in (self._process.stdin, self._process.stdout):
            os.set_blocking(end.fileno(), False)
        sources = self._sources
        told = {"main": sources.main, "modules": sources.modules, "parts": sources.parts}
        self._write(pack_request(told), time.monotonic() + _START_SECONDS)

    def _write(self, data: bytes, deadline: float) -> None:
        descriptor = self._process.stdin.fileno()
        rest = memoryview(data)
        while True:
            try:
                rest = rest[os.write(descriptor, rest[: 1 << 16]) :]
            except BlockingIOError:
                pass
            except OSError:
                raise self._died() from None
            if not rest:
                return
            self._wait([], [descriptor], deadline)

    def _read(self, deadline: float) -> Any:
        self._receive(HEAD.size, deadline)
        (size,) = HEAD.unpack_from(self._received)
        if size > _MOST_BYTES:
            raise self._broken(f"it answered with {size} bytes; at most {_MOST_BYTES} are read")
        end = HEAD.size + size
        self._receive(end, deadline)
        data = bytes(self._received[HEAD.size : end])
        del self._received[:end]
        try:
            return unpack(data)
        except WireError as error:
            raise self._broken(str(error)) from None

    def _receive(self, size: int, deadline: float) -> None:
        """Read until there are so many bytes, and no more than come with the last of them."""
        descriptor = self._process.stdout.fileno()
        while len(self._received) < size:
            self._wait([descriptor], [], deadline)
            try:
                part = os.read(descriptor, 1 << 18)
            except BlockingIOError:
                continue
            if not part:
                raise self._died()
            self._received += part

    def _wait(self, read: list[int], write: list[int], deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not any(select.select(read, write, [], left)):
            self.close()
            raise WorkerError("timeout", "the test did not end within its time limit")

    def _died(self) -> WorkerError:
        process = self._process
        for _ in range(100):
            if process.poll() is not None:
                break
            time.sleep(0.01)
        code = process.returncode
        self.close()
        if code is None:
            return WorkerError("raised", "the process closed its pipe")
        # bubblewrap reports the signal that ended its child as a shell does.
        number = -code if code < 0 else code - 128
        if number == signal.SIGXCPU or number == signal.SIGKILL:
            return WorkerError("timeout", "the test did not end within its limit of CPU time")
        how = f"signal {number}" if 0 < number < 65 else f"exit code {code}"
        return WorkerError("raised", f"the process ended ({how}) before it answered")

    def _broken(self, how: str) -> WorkerError:
        self.close()
        return WorkerError("raised", f"the process does not keep to the protocol: {how}")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("an error is told in texts")
    return value
