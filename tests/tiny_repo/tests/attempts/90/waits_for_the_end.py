class Pairs:
    def __init__(self):
        self._held = ""

    @property
    def held(self):
        return self._held

    def feed(self, text):
        self._held += text
        return ""

    def flush(self):
        rest, self._held = self._held, ""
        return rest
