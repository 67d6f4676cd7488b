class JsonScanner:
    def __init__(self):
        self.done = self.failed = False

    def feed(self, text):
        pass

    def flush(self):
        pass


class StreamingCallParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        self.held = ""

    def feed(self, text):
        pass

    def flush(self):
        pass


class ReasoningSplitter:
    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False):
        self.held = ""

    def feed(self, text):
        pass

    def flush(self):
        pass
