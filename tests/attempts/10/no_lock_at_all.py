from collections import deque

from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending):
        if max_pending < 1:
            raise ValueError("max_pending must be at least 1")
        self.max_pending = max_pending
        self.chunks = deque()  # appends and pops of a deque are thread-safe
        self.reason = None
        self.end_read = False
        self._state = "open"

    @property
    def state(self):
        return self._state

    def push(self, chunk):
        if chunk.finish_reason is not None:
            raise ValueError(f"finish_reason must be None, not {chunk.finish_reason}")
        if self._state != "open":
            return False
        if len(self.chunks) < self.max_pending:
            self.chunks.append(chunk)
        else:
            last = self.chunks.pop()
            self.chunks.append(Chunk(last.text + chunk.text, last.token_ids + chunk.token_ids))
        return True

    def finish(self, reason):
        if self._state != "open":
            return False
        self._state = "finished"
        self.reason = reason
        return True

    def cancel(self):
        if self._state == "open":
            self._state = "cancelled"
            self.reason = "cancelled"

    def try_pop(self):
        if self.chunks:
            return self.chunks.popleft()
        if self._state != "open" and not self.end_read:
            self.end_read = True
            return Chunk("", (), self.reason)
        return None

    def reader(self):
        raise NotImplementedError("lab-10 task 3: reader")
