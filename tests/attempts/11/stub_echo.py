class ChatStream:
    def __init__(self, id, created, model, *, include_usage=False):
        self.said = b""

    def start(self):
        return b""

    def feed(self, event):
        return getattr(event, "text", "").encode()

    def finish(self, reason, usage=None):
        return reason.encode()

    def error(self, message):
        return message.encode()


class SseReader:
    def __init__(self):
        self.said = b""

    def feed(self, data):
        return [data.decode("utf-8", "replace")]
