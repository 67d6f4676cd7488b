import asyncio
import threading
from collections import deque
from contextlib import asynccontextmanager

from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending: int) -> None:
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._max_pending = max_pending
        self._lock = threading.Lock()
        self._waiting: deque[tuple[list[str], list[int]]] = deque()
        self._state = "open"
        self._reason = None
        self._end_taken = False
        self._event = asyncio.Event()

    @property
    def state(self) -> str:
        with self._lock:
            return self._state

    def push(self, chunk: Chunk) -> bool:
        if chunk.finish_reason is not None:
            raise ValueError(f"push got a chunk with finish_reason={chunk.finish_reason!r}")
        with self._lock:
            if self._state != "open":
                return False
            if len(self._waiting) < self._max_pending:
                self._waiting.append(([chunk.text], [*chunk.token_ids]))
            else:
                # join only when it is read
                texts, ids = self._waiting[-1]
                texts.append(chunk.text)
                ids.extend(chunk.token_ids)
            self._event.set()
            return True

    def _finish(self, state: str, reason: str) -> bool:
        with self._lock:
            if self._state != "open":
                return False
            self._state = state
            self._reason = reason
            self._event.set()
            return True

    def finish(self, reason: str) -> bool:
        return self._finish("finished", reason)

    def cancel(self) -> None:
        self._finish("cancelled", "cancelled")

    def try_pop(self) -> Chunk | None:
        with self._lock:
            if self._waiting:
                texts, ids = self._waiting.popleft()
                return Chunk("".join(texts), tuple(ids))
            if self._state != "open" and not self._end_taken:
                self._end_taken = True
                return Chunk("", (), self._reason)
            return None

    @asynccontextmanager
    async def reader(self):
        try:
            yield self._read()
        finally:
            self.cancel()

    async def _read(self):
        while not self._end_taken:
            self._event.clear()
            chunk = self.try_pop()
            if chunk is None:
                await self._event.wait()
                continue
            yield chunk
