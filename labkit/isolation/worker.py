"""The process that holds a submission: `python worker.py ROOT MODE [UID]`.

It is told sources, then runs, and answers each with data. From the moment the submission is
imported, nothing here can be relied on; whoever reads the answers relies on nothing.

But: of the walls it sets only those in `labkit.isolation.walls`. Whoever starts it sets the rest.
"""

import os
import sys
from typing import Any


def main(root: str, mode: str, user: str) -> None:
    """Serve requests from standard input until it is closed."""
    sys.path.insert(0, root)
    from labkit.isolation.modules import Modules
    from labkit.isolation.walls import give_up
    from labkit.isolation.wire import HEAD, WireError, pack, unpack_calls, unpack_request
    from labkit.running.drive import perform

    # What the submission prints goes nowhere; the pipe is not its standard output.
    reader, writer = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    give_up(mode, root, user)
    os.write(2, b"ready\n")
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)

    def told() -> Any:
        data = bytearray()
        while len(data) < HEAD.size or len(data) < HEAD.size + HEAD.unpack_from(data)[0]:
            part = os.read(reader, 1 << 20)
            if not part:
                os._exit(0)
            data += part  # The other side asks one thing at a time, so nothing follows.
        return unpack_request(data)

    def write(*answer: Any) -> None:
        try:
            data = pack(list(answer))
        except WireError as error:
            data = pack([answer[0], f"{error}"])
        sent = os.write(writer, data)
        while sent < len(data):
            sent += os.write(writer, data[sent : sent + (1 << 20)])

    modules = Modules("", {}, {})
    while True:
        number, do, *rest = told()
        try:
            if do == "load":
                modules = Modules(*rest)
                write(number, None, modules.load())
                continue
            new, calls, watch = unpack_calls(*rest)
            trace = perform(modules.resolve, new, calls, watch)
            raised = trace.raised
            write(
                number,
                None,
                [step.result for step in trace.steps],
                [step.held for step in trace.steps] if watch else None,
                raised and [raised.kind, raised.message, raised.line],
            )
        except BaseException as error:
            write(number, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
