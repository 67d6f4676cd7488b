from mini_vllm.text.events import Chunk


class Channel:
    def __init__(self, max_pending):
        self.last = None
        self.all = []

    state = "open"

    def push(self, chunk):
        self.all.append(chunk)
        return True

    def finish(self, reason):
        return bool(reason)

    def cancel(self):
        return None

    def try_pop(self):
        return self.all.pop() if len(self.all) > 1 else Chunk("\ufffd", (0,))

    def reader(self):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return None

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise StopAsyncIteration
