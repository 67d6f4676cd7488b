import threading
from collections import deque
from dataclasses import replace

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
        return self._state

    def push(self, chunk: Chunk) -> bool:
        if chunk.finish_reason is not None:
            raise ValueError(f"only finish may set the reason {chunk.finish_reason!r}")
        with self._lock:
            if self._state != "open":
                return False
            if len(self._waiting) == self._max_pending:
                last = self._waiting[-1]
                self._waiting[-1] = Chunk(last.text + chunk.text, last.token_ids + chunk.token_ids)
            else:
                self._waiting.append(chunk)
            return True

    def finish(self, reason: str) -> bool:
        with self._lock:
            if self._state != "open":
                return False
            self._state = "finished"
            self._end(reason)
            return True

    def _end(self, reason):
        # the last chunk has the finish_reason
        if self._waiting:
            self._waiting[-1] = replace(self._waiting[-1], finish_reason=reason)
        else:
            self._waiting.append(Chunk("", (), reason))

    def cancel(self) -> None:
        with self._lock:
            if self._state == "open":
                self._state = "cancelled"
                self._end("cancelled")

    def try_pop(self) -> Chunk | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def reader(self):
        raise NotImplementedError("lab-10 task 3: reader")
