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
            raise ValueError(f"push of a chunk with finish_reason {chunk.finish_reason}")
        with self._lock:
            if self._state != "open":
                return False
            if len(self._waiting) >= self._max_pending:
                self._waiting[-1].append(chunk)
            else:
                self._waiting.append([chunk])
        return True

    def finish(self, reason):
        with self._lock:
            if self._state != "open":
                return False
            self._state = "finished"
            if len(self._waiting) < self._max_pending:
                self._waiting.append([Chunk("", (), reason)])
        return True

    def cancel(self):
        with self._lock:
            if self._state != "open":
                return
            self._state = "cancelled"
            self._waiting.append([Chunk("", (), "cancelled")])

    def try_pop(self):
        with self._lock:
            if not self._waiting:
                return None
            parts = self._waiting.popleft()
        if len(parts) == 1:
            return parts[0]
        ids = []
        for part in parts:
            ids.extend(part.token_ids)
        return Chunk("".join(part.text for part in parts), tuple(ids))

    def reader(self):
        raise NotImplementedError("lab-10 task 3: reader")
