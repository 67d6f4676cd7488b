class ChatStream:
    def __init__(self, id, created, model, *, include_usage=False):
        self.said = b""

    def start(self):
        return b""

    def feed(self, event):
        return b""

    def finish(self, reason, usage=None):
        return b""

    def error(self, message):
        return b""


class SseReader:
    def __init__(self):
        self.said = b""

    def feed(self, data):
        return []
