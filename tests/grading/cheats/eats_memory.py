"""Takes memory until there is no more."""

HOARD = []

EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        while True:
            HOARD.append(bytearray(1 << 26))

    def flush(self):
        return self.feed("")
