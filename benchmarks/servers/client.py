"""Many streams read at once from raw sockets; only bytes and times are recorded.

What a stream said is checked after the clock has stopped: a client that parses as it reads takes
longer than the server that it measures.
"""

import selectors
import socket
import time
from dataclasses import dataclass, field

_PIECE = 1 << 18
_END = b"0\r\n\r\n"
_SECONDS = 60.0


@dataclass(slots=True)
class Answer:
    """One stream: its pieces, when each came, and when it was requested, in seconds."""

    sent: float = 0.0
    times: list[float] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)

    @property
    def ended(self) -> float:
        """The time of the last byte."""
        return self.times[-1]

    @property
    def first_byte(self) -> float:
        """The seconds until the first byte of the body came."""
        # A chunk begins with its size.
        return self._waited(self._index(b"\r\n", self._index(b"\r\n\r\n")) + 1)

    def first(self, mark: bytes) -> float:
        """Return the seconds until `mark` had come.

        Raises:
            ValueError: it never came.
        """
        return self._waited(self._index(mark))

    def _index(self, mark: bytes, start: int = 0) -> int:
        """Return the place after a mark."""
        return b"".join(self.pieces).index(mark, start) + len(mark)

    def _waited(self, end: int) -> float:
        for piece, came in zip(self.pieces, self.times, strict=True):
            end -= len(piece)
            if end <= 0:
                return came - self.sent
        raise ValueError("the answer is shorter")

    def body(self) -> bytes:
        """Return the body, with its chunks joined.

        Raises:
            ValueError: the status is not 200, or the answer is not cut into chunks.
        """
        head, _, rest = b"".join(self.pieces).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 ") or b"chunked" not in head:
            raise ValueError(f"the server answered {head[:200]!r} {rest[:300]!r}")
        body: list[bytes] = []
        while True:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            if not length:
                return b"".join(body)
            body.append(rest[:length])
            rest = rest[length + 2 :]


def request(path: str, body: bytes) -> bytes:
    """Return a POST request of JSON."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def read_streams(port: int, message: bytes, streams: int) -> list[Answer]:
    """Send a request on each of many connections at once; return all answers.

    Raises:
        TimeoutError: nothing came for a minute.
        ConnectionError: the server closed a connection before its answer ended.
    """
    # The clock starts when all are connected.
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(streams)]
    answers = [Answer() for _ in connections]
    with selectors.DefaultSelector() as selector:
        for place, connection in enumerate(connections):
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, place)
        for connection, answer in zip(connections, answers, strict=True):
            answer.sent = time.perf_counter()
            connection.sendall(message)
        left = streams
        while left:
            ready = selector.select(_SECONDS)
            if not ready:
                raise TimeoutError(f"{left} of {streams} streams said nothing for {_SECONDS:.0f} s")
            for key, _ in ready:
                connection, answer = connections[key.data], answers[key.data]
                piece = connection.recv(_PIECE)
                if not piece:
                    raise ConnectionError(f"closed after {b''.join(answer.pieces)[-200:]!r}")
                answer.times.append(time.perf_counter())
                answer.pieces.append(piece)
                # The end may be cut in two.
                if b"".join(answer.pieces[-2:]).endswith(_END):
                    selector.unregister(connection)
                    connection.close()
                    left -= 1
    return answers
