class Pairs:
    def __init__(self):
        self._held = ""

    @property
    def held(self):
        return self._held

    def feed(self, text):
        text = self._held + text
        even = len(text) // 2 * 2
        self._held = text[even:]
        return text[:even]

    def flush(self):
        return self._held
