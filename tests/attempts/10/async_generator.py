import asyncio
import threading
from collections import deque
from contextlib import asynccontextmanager

from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending):
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._max_pending = max_pending
        self._lock = threading.Lock()
        self._waiting = deque()
        self._state = "open"
        self._over = False
        self._loop = None
        self._event = None

    @property
    def state(self):
        return self._state

    def push(self, chunk):
        if chunk.finish_reason is not None:
            raise ValueError(f"push of a chunk with finish_reason {chunk.finish_reason}")
        with self._lock:
            if self._state != "open":
                return False
            if len(self._waiting) >= self._max_pending:
                self._waiting[-1].append(chunk)
            else:
                self._waiting.append([chunk])
        return self._notify()

    def finish(self, reason):
        with self._lock:
            if self._state != "open":
                return False
            self._state = "finished"
            self._waiting.append([Chunk("", (), reason)])
        self._notify()
        return True

    def cancel(self):
        with self._lock:
            if self._state != "open":
                return
            self._state = "cancelled"
            self._waiting.append([Chunk("", (), "cancelled")])
        self._notify()

    def try_pop(self):
        with self._lock:
            if not self._waiting:
                return None
            parts = self._waiting.popleft()
            if parts[0].finish_reason is not None:
                self._over = True
        if len(parts) == 1:
            return parts[0]
        ids = []
        for part in parts:
            ids.extend(part.token_ids)
        return Chunk("".join(part.text for part in parts), tuple(ids))

    @asynccontextmanager
    async def reader(self):
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            yield self._chunks()
        finally:
            self.cancel()

    async def _chunks(self):
        while not self._over:
            self._event.clear()
            chunk = self.try_pop()
            if chunk is None:
                await self._event.wait()
            else:
                yield chunk

    def _notify(self):
        if self._loop is None:
            return True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            self._loop = None
            self.cancel()
            return False
        return True
