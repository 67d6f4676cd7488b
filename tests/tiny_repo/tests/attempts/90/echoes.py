class Pairs:
    def __init__(self):
        self._held = ""

    @property
    def held(self):
        return self._held

    def feed(self, text):
        return text

    def flush(self):
        return self._held
