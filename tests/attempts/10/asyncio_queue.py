import asyncio

from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending):
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._max = max_pending
        self._q = asyncio.Queue()
        self._state = "open"

    @property
    def state(self):
        return self._state

    def push(self, chunk):
        if chunk.finish_reason is not None:
            raise ValueError(f"bad {chunk.finish_reason}")
        if self._state != "open":
            return False
        if self._q.qsize() < self._max:
            self._q.put_nowait(chunk)
        return True

    def finish(self, reason):
        if self._state != "open":
            return False
        self._state = "finished"
        self._q.put_nowait(Chunk("", (), reason))
        return True

    def cancel(self):
        if self._state == "open":
            self._state = "cancelled"
            self._q.put_nowait(Chunk("", (), "cancelled"))

    def try_pop(self):
        try:
            return self._q.get_nowait()
        except asyncio.QueueEmpty:
            return None

    def reader(self):
        return Reader(self)


class Reader:
    def __init__(self, channel):
        self.c = channel
        self.over = False

    async def __aenter__(self):
        return self

    async def __aexit__(self, *e):
        self.c.cancel()

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.over:
            raise StopAsyncIteration
        chunk = await self.c._q.get()
        self.over = chunk.finish_reason is not None
        return chunk
