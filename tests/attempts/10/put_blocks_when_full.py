import queue
import threading

from mini_vllm.text.events import Chunk


class Channel:
    """A queue.Queue is thread safe already."""

    def __init__(self, max_pending: int) -> None:
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._queue = queue.Queue(maxsize=max_pending)
        self._end = None
        self._state = "open"
        self._lock = threading.Lock()

    @property
    def state(self) -> str:
        return self._state

    def push(self, chunk: Chunk) -> bool:
        if chunk.finish_reason is not None:
            raise ValueError(f"chunk with finish_reason {chunk.finish_reason!r}")
        if self._state != "open":
            return False
        self._queue.put(chunk)
        return True

    def finish(self, reason: str) -> bool:
        with self._lock:
            if self._state != "open":
                return False
            self._state = "finished"
            self._end = Chunk("", (), reason)
            return True

    def cancel(self) -> None:
        with self._lock:
            if self._state == "open":
                self._state = "cancelled"
                self._end = Chunk("", (), "cancelled")

    def try_pop(self) -> Chunk | None:
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            end, self._end = self._end, None
            return end

    def reader(self):
        raise NotImplementedError("lab-10 task 3: reader")
