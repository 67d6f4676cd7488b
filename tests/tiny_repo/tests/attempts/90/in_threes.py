class Pairs:
    def __init__(self):
        self._held = ""

    @property
    def held(self):
        return self._held

    def feed(self, text):
        text = self._held + text
        even = len(text) // 3 * 3
        self._held = text[even:]
        return text[:even]

    def flush(self):
        rest, self._held = self._held, ""
        return rest
