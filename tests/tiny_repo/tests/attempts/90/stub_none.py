class Pairs:
    def __init__(self):
        self._held = ""

    @property
    def held(self):
        return None

    def feed(self, text):
        return None

    def flush(self):
        return None
