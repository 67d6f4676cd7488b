"""Returns more than anyone wants to read."""

WHOLE = 1 << 27

EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        return "x" * WHOLE

    def flush(self):
        return self.feed("")
