class ChatStream:
    def __init__(self, id, created, model, *, include_usage=False):
        self.said = b""

    def start(self):
        return None

    def feed(self, event):
        return None

    def finish(self, reason, usage=None):
        return None

    def error(self, message):
        return None


class SseReader:
    def __init__(self):
        self.said = b""

    def feed(self, data):
        return None
