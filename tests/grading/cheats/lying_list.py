"""Returns a list that lies about its length and its items."""


class Lying(list):
    def __len__(self):
        return 1000

    def __iter__(self):
        return iter(["ab", "cd"])


EARNS = 0


def feed(self, text):
    return Lying()
