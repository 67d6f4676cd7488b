"""The process that holds a submission: `python -I worker.py ROOT [UID]`.

It is told sources, then runs, and answers each with data. From the moment the submission is
imported, nothing here can be relied on; whoever reads the answers relies on nothing.

But: of the walls it sets only limits. Whoever starts it sets the rest.
"""

import contextlib
import ctypes
import os
import resource
import sys
from typing import Any

# For good, before a submission is there: address space, size of a file, open files, processes,
# and a core dump of none.
LIMITS = {
    "RLIMIT_AS": 1 << 30,
    "RLIMIT_FSIZE": 16 << 20,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_NPROC": 32,
    "RLIMIT_CORE": 0,
    "RLIMIT_CPU": 600,
}
_CLONE_NEWUSER = 0x10000000


def main(root: str, user: str) -> None:
    """Serve requests from standard input until it is closed."""
    sys.path.insert(0, root)
    from labkit.drive import perform
    from labkit.isolation.modules import Modules
    from labkit.isolation.wire import HEAD, WireError, pack, unflat, unpack_request
    from labkit.trace import Call

    for name, most in LIMITS.items():
        limit = getattr(resource, name)
        _, hard = resource.getrlimit(limit)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))

    if user:
        _become(int(user))
    # What the submission prints goes nowhere; the pipe is not its standard output.
    reader, writer = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)

    waiting = bytearray()

    def read(size: int) -> bytes:
        while len(waiting) < size:
            part = os.read(reader, 1 << 20)
            if not part:
                os._exit(0)
            waiting.extend(part)
        data = bytes(waiting[:size])
        del waiting[:size]
        return data

    def write(answer: object) -> None:
        try:
            data = memoryview(pack(answer))
        except WireError as error:
            data = memoryview(pack({"broken": str(error)}))
        while data:
            data = data[os.write(writer, data) :]

    def told() -> dict[str, Any]:
        return unpack_request(read(HEAD.unpack(read(HEAD.size))[0]))

    modules = Modules(told())
    while True:
        request = told()
        answer: dict[str, Any] = {"id": request["id"]}
        _allow_cpu(request["cpu_seconds"])
        try:
            if request["do"] == "load":
                answer["failure"] = modules.load()
            else:
                calls = [
                    Call(name, args, kwargs, number)
                    for name, args, kwargs, number in request["calls"]
                ]
                new = [*map(unflat, request["new"])]
                trace = perform(modules.resolve, new, calls, request["watch"])
                answer["steps"] = [[step.result, step.held] for step in trace.steps]
                raised = trace.raised
                answer["raised"] = raised and [raised.kind, raised.message, raised.line]
        except BaseException as error:
            answer["broken"] = f"{type(error).__name__}: {error}"
        write(answer)


def _become(user: int) -> None:
    """Be another user, and then, where that is allowed, the only one of an own namespace."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    ctypes.CDLL(None).unshare(_CLONE_NEWUSER)


def _allow_cpu(seconds: int | None) -> None:
    """Let the process use so much more CPU time, or none more than before."""
    if seconds is None:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(
            resource.RLIMIT_CPU,
            (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard),
        )


if __name__ == "__main__":
    main(*sys.argv[1:3])
