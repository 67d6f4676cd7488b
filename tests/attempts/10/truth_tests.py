import threading
from collections import deque

from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending):
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._max_pending = max_pending
        self._lock = threading.Lock()
        self._waiting = deque()
        self._state = "open"

    @property
    def state(self):
        return self._state

    def push(self, chunk):
        if chunk.finish_reason is not None:
            raise ValueError(f"a terminal chunk ({chunk.finish_reason}) cannot be pushed")
        if self._state != "open":
            return False
        self._waiting.append(chunk)
        return True

    def finish(self, reason):
        if self._state != "open":
            return False
        self._state = "finished"
        self._waiting.append(Chunk("", (), reason))
        return True

    def cancel(self):
        raise NotImplementedError("lab-10 task 2: cancel")

    def try_pop(self):
        while self._waiting:
            chunk = self._waiting.popleft()
            if chunk.text:
                return chunk
        return None

    def reader(self):
        raise NotImplementedError("lab-10 task 3: reader")
