"""Returns a list that lies about its length and its items."""


class Lying(list):
    def __len__(self):
        return 1000

    def __iter__(self):
        return iter(["ab", "cd"])


EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        return Lying()

    def flush(self):
        return self.feed("")
