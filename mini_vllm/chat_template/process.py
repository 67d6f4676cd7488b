"""The child process of a chat template, and the socket to it.

Requests and replies are JSON, each after its length in eight bytes. `template.py` writes the
requests, and `worker.py` the replies.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from mini_vllm.tokenizer_errors import ChatTemplateError

_WORKER_FILE = Path(__file__).resolve().with_name("worker.py")
_START_SECONDS = 30.0
# The variables that Python needs to start, and to have the right time. A template must not see the
# others, which may contain keys and tokens.
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ")


class WorkerProcess:
    """One running worker.

    Args:
        setup: the first request.
        reply_size: the largest size of a reply, in bytes; longer replies are refused.

    Raises:
        ChatTemplateError: the process cannot start.
    """

    def __init__(self, setup: bytes, reply_size: int) -> None:
        self._reply_size = reply_size
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _spawn(theirs)
            except OSError as error:
                self._socket.close()
                raise ChatTemplateError(f"the template's process cannot start: {error}") from error
        self.end = weakref.finalize(self, _kill, self._process, self._socket)
        try:
            self.exchange(setup, _START_SECONDS)
        except (EOFError, OSError, ValueError):
            raise ChatTemplateError(
                f"the template's process cannot start: it {self.fate()}; "
                f"is jinja2 installed for {sys.executable}?"
            ) from None

    def alive(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def exchange(self, data: bytes, seconds: float) -> dict[str, Any]:
        """Send one frame and return the reply.

        Raises:
            TimeoutError: the reply did not arrive in time.
            EOFError, OSError, ValueError: the process has ended, or its reply is invalid.
        """
        deadline = time.monotonic() + seconds
        self._socket.settimeout(seconds)
        # A worker that ends before it has read everything may have sent the reason.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(len(data).to_bytes(8, "big") + data)
        size = int.from_bytes(self._receive(8, deadline), "big")
        if size > self._reply_size:
            raise ValueError(f"an answer of {size} bytes")
        reply = json.loads(self._receive(size, deadline).decode("utf-8", "surrogatepass"))
        if not isinstance(reply, dict):
            raise ValueError("an answer that is not an object")
        return reply

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def fate(self) -> str:
        """End the process if it has not ended by itself, and return how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        self.end()
        code = self._process.returncode
        if code >= 0:
            return f"ended with status {code}"
        return f"ended by signal {-code} ({signal.strsignal(-code)})"

    def forget(self) -> None:
        """Close our copy of the socket and leave the process alone."""
        # A process that is marked as ended is neither killed nor waited for.
        self._process.returncode = 0
        self.end()


def _spawn(connection: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-I", str(_WORKER_FILE)],
        stdin=connection.fileno(),
        stdout=connection.fileno(),
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        # Ctrl-C in the terminal is for the parent alone.
        start_new_session=True,
    )


def _kill(process: "subprocess.Popen[bytes]", connection: socket.socket) -> None:
    connection.close()
    process.kill()
    process.wait()
