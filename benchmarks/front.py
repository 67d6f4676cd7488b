"""What an open stream costs the server in memory, for the page on fronts of several processes.

The server is that of the group `server`, with a step of 20 ms. Chats are opened and read for a
while, and the resident memory of the process is read from `/proc`. *A stream* is the difference
between many and few streams by their number, so that what all share is left out: tables, caches,
the interpreter. It includes the connection, its tasks, the text path, and the ids so far.
"""

import json
import selectors
import socket
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness import Report, main
from benchmarks.servers.client import request
from benchmarks.servers.process import serving

FEW, MANY = 64, 256
QUICK_FEW, QUICK_MANY = 2, 8
STEP = 0.02
IDS = 4_000
SECONDS, QUICK_SECONDS = 4.0, 0.3
TITLE = "Memory of a server (bytes)"


def work(report: Report) -> None:
    """Measure each number of streams, in a server of its own."""
    if not Path("/proc/self/status").exists():
        print("There is no /proc here, so the memory of a process is not measured.")
        return
    few, many = (QUICK_FEW, QUICK_MANY) if report.quick else (FEW, MANY)
    used = {streams: _resident(report, streams) for streams in (1, few, many)}
    rows: list[list[object]] = [[f"{streams} open", size] for streams, size in used.items()]
    rows.append(["a stream", (used[many] - used[few]) // (many - few)])
    report.table(TITLE, ["streams", "resident"], rows)


def _resident(report: Report, streams: int) -> int:
    """Return the resident bytes of a server that has so many streams open."""
    payload = {"messages": [{"role": "user", "content": "Tell me all."}], "max_tokens": IDS,
               "stream": True, "ignore_eos": True}  # fmt: skip
    message = request("/v1/chat/completions", json.dumps(payload).encode())
    server = serving("ours", "--step", str(STEP), quick=report.quick)
    with server as (pid, port), ExitStack() as opened:
        connections = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(streams)
        ]
        for connection in connections:
            connection.sendall(message)
        _read(connections, QUICK_SECONDS if report.quick else SECONDS)
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kilobytes) * 1024


def _read(connections: list[socket.socket], seconds: float) -> None:
    """Read all connections for so long after each of them has sent something.

    Raises:
        ConnectionError: the server closed one.
    """
    silent, end = {*connections}, float("inf")
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while time.monotonic() < end:
            for key, _ in selector.select(1):
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(1 << 16):
                    raise ConnectionError("the server closed a stream")
                silent.discard(key.fileobj)
            if not silent and end == float("inf"):
                end = time.monotonic() + seconds


if __name__ == "__main__":
    main(work, name="front", about=__doc__, pin=False)
