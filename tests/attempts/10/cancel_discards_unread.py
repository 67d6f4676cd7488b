import threading
from collections import deque

from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending: int) -> None:
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._max_pending = max_pending
        self._lock = threading.Lock()
        self._waiting: deque[Chunk] = deque()
        self._state = "open"

    @property
    def state(self) -> str:
        with self._lock:
            return self._state

    def push(self, chunk: Chunk) -> bool:
        with self._lock:
            if chunk.finish_reason is not None:
                raise ValueError(f"a pushed chunk has the reason {chunk.finish_reason!r}")
            if self._state != "open":
                return False
            if len(self._waiting) >= self._max_pending:
                last = self._waiting.pop()
                chunk = Chunk(last.text + chunk.text, (*last.token_ids, *chunk.token_ids))
            self._waiting.append(chunk)
            return True

    def finish(self, reason: str) -> bool:
        with self._lock:
            if self._state != "open":
                return False
            self._state = "finished"
            self._waiting.append(Chunk("", (), reason))
            return True

    def cancel(self) -> None:
        with self._lock:
            if self._state != "open":
                return
            self._state = "cancelled"
            self._waiting.clear()  # the reader has left
            self._waiting.append(Chunk("", (), "cancelled"))

    def try_pop(self) -> Chunk | None:
        with self._lock:
            if not self._waiting:
                return None
            return self._waiting.popleft()

    def reader(self):
        raise NotImplementedError("lab-10 task 3: reader")
