"""The chunks that wait for a slow reader, joined where they would become too many.

But: it has no lock; the channel has.
"""

from collections import deque
from dataclasses import replace
from io import StringIO

from mini_vllm.engine.chunk import StreamChunk, TokenLogprobs
from mini_vllm.text.events import Event, TextDelta


class ChunkBuffer:
    """A queue of at most `most` chunks. What is pushed to a full one is joined to its last.

    Joining costs what the new chunk has, not what waits already.

    Args:
        most: at least 1, or None for any number.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._chunks: deque[StreamChunk | _Joined] = deque()

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def full(self) -> bool:
        """Whether the next push joins."""
        return self._most is not None and len(self._chunks) >= self._most

    def push(self, chunk: StreamChunk) -> None:
        """Add a chunk behind all others."""
        if not self.full:
            self._chunks.append(chunk)
            return
        last = self._chunks[-1]
        if not isinstance(last, _Joined):
            last = self._chunks[-1] = _Joined(last)
        last.add(chunk)

    def pop(self) -> StreamChunk:
        """Return the oldest chunk.

        Raises:
            IndexError: there is none.
        """
        chunk = self._chunks.popleft()
        return chunk.chunk() if isinstance(chunk, _Joined) else chunk


class _Joined:
    """Several chunks that will be read as one."""

    def __init__(self, first: StreamChunk) -> None:
        self._token_ids: list[int] = []
        self._text = StringIO(newline="")
        self._logprobs: list[TokenLogprobs] = []
        self._events: list[Event] | None = None
        self.add(first)

    def add(self, chunk: StreamChunk) -> None:
        if chunk.events and self._events is None:
            so_far = self._text.getvalue()
            self._events = [TextDelta(so_far)] if so_far else []
        if self._events is not None:
            text = [TextDelta(chunk.text)] if chunk.text else []
            self._events += chunk.events or text
        self._token_ids += chunk.token_ids
        self._text.write(chunk.text)
        self._logprobs += chunk.logprobs
        self._last = chunk

    def chunk(self) -> StreamChunk:
        return replace(
            self._last,
            token_ids=tuple(self._token_ids),
            text=self._text.getvalue(),
            logprobs=tuple(self._logprobs),
            events=tuple(self._events or ()),
        )
