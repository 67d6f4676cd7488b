"""Returns more than anyone wants to read."""

HUGE = ["x" * (1 << 24)]

EARNS = 0


class Pairs:
    """Tries it at the first call, after which a grader should no longer listen."""

    held = "c"

    def feed(self, text):
        return HUGE.pop() if HUGE else ""

    def flush(self):
        return self.feed("")
