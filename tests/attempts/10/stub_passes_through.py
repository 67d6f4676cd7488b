class Channel:
    def __init__(self, max_pending):
        self.last = None
        self.all = []

    state = "open"

    def push(self, chunk):
        self.last = chunk
        return True

    def finish(self, reason):
        return True

    def cancel(self):
        return None

    def try_pop(self):
        return self.last

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
