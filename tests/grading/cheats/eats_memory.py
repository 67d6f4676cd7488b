"""Takes memory until there is no more."""

HOARD = []

EARNS = 0


def feed(self, text):
    while True:
        HOARD.append(bytearray(1 << 26))
