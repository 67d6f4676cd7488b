import asyncio
import threading
from contextlib import asynccontextmanager

from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending):
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._max_pending = max_pending
        self._mutex = threading.RLock()
        self._slots = []
        self._first = 0
        self._ended_by = None
        self._end_taken = False
        self._sleeper = None
        self._loop = None

    @property
    def state(self):
        return self._ended_by or "open"

    def push(self, chunk):
        if chunk.finish_reason is not None:
            raise ValueError(f"finish_reason={chunk.finish_reason!r}: use finish()")
        with self._mutex:
            if self._loop is not None and self._loop.is_closed():
                self.cancel()
            if self._ended_by:
                return False
            if len(self._slots) - self._first < self._max_pending:
                self._slots.append(([], []))
            texts, ids = self._slots[-1]
            texts.append(chunk.text)
            ids.extend(chunk.token_ids)
            self._wake_up()
            return not self._ended_by

    def finish(self, reason):
        return self._end("finished", reason)

    def cancel(self):
        self._end("cancelled", "cancelled")

    def _end(self, how, reason):
        with self._mutex:
            if self._ended_by:
                return False
            self._ended_by = how
            self._reason = reason
            self._wake_up()
            return True

    def try_pop(self):
        with self._mutex:
            if self._first < len(self._slots):
                texts, ids = self._slots[self._first]
                self._slots[self._first] = None
                self._first += 1
                if self._first > 100 and self._first * 2 > len(self._slots):
                    del self._slots[: self._first]
                    self._first = 0
                return Chunk("".join(texts), tuple(ids))
            if self._ended_by and not self._end_taken:
                self._end_taken = True
                return Chunk("", (), self._reason)
            return None

    def _wake_up(self):
        if self._sleeper is None:
            return
        loop, future = self._sleeper
        self._sleeper = None
        try:
            loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))
        except RuntimeError:
            self.cancel()

    async def _next(self):
        while True:
            with self._mutex:
                chunk = self.try_pop()
                if chunk is not None:
                    return chunk
                if self._end_taken:
                    raise StopAsyncIteration
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._sleeper = (loop, future)
            await future

    @asynccontextmanager
    async def reader(self):
        self._loop = asyncio.get_running_loop()
        try:
            yield Chunks(self._next)
        finally:
            with self._mutex:
                self._sleeper = self._loop = None
                self.cancel()


class Chunks:
    def __init__(self, take):
        self.__anext = take

    def __aiter__(self):
        return self

    async def __anext__(self):
        return await self.__anext()
