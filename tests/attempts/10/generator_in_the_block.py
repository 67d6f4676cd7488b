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
        self._end: Chunk | None = None
        self._end_taken = False
        self._loop = None
        self._event = None

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
            if not self._wake():
                self._state = "cancelled"
                self._end = Chunk("", (), "cancelled")
                return False
            return True

    def _wake(self) -> bool:
        if self._loop is None:
            return True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _finish(self, state: str, reason: str) -> bool:
        with self._lock:
            if self._state != "open":
                return False
            self._state = state
            self._end = Chunk("", (), reason)
            self._wake()
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
            if self._end is not None and not self._end_taken:
                self._end_taken = True
                return self._end
            return None

    @asynccontextmanager
    async def reader(self):
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._event = asyncio.Event()
        try:
            yield self._chunks()
        finally:
            with self._lock:
                self._loop = None
            self.cancel()

    async def _chunks(self):
        while True:
            chunk = self.try_pop()
            if chunk is not None:
                yield chunk
                if chunk.finish_reason is not None:
                    return
                continue
            if self._end_taken:
                return
            await self._event.wait()
            self._event.clear()
