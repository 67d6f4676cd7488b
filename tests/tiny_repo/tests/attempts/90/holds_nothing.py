class Pairs:
    def __init__(self):
        self._held = ""

    @property
    def held(self):
        return self._held

    def feed(self, text):
        text = self._held + text
        self._held = text[len(text) // 2 * 2 :]
        return text

    def flush(self):
        rest, self._held = self._held, ""
        return rest
