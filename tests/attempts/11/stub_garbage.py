class ChatStream:
    def __init__(self, id, created, model, *, include_usage=False):
        self.said = b""

    def start(self):
        return b"data: {}\n\n"

    def feed(self, event):
        return b"data: {}\n\n"

    def finish(self, reason, usage=None):
        return b"data: {}\n\n"

    def error(self, message):
        return b"data: {}\n\n"


class SseReader:
    def __init__(self):
        self.said = b""

    def feed(self, data):
        return [data[6:-2].decode("utf-8", "replace")]
