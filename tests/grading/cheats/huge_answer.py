"""Returns more than anyone wants to read."""

HUGE = ["x" * (1 << 24)]

EARNS = 0


def feed(self, text):
    return HUGE.pop() if HUGE else ""
