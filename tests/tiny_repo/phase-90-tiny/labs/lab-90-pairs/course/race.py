"""Many pieces of one character."""

UNIT = "piece"
CLASS = "Pairs"
ARGUMENTS = ()
NAIVE = "all at the end"


def workload() -> list:
    """Return the pieces."""
    return list("abcdefghij" * 20 + "k")


class Pairs:
    """Hold all until the end."""

    def __init__(self):
        self.held = ""

    def feed(self, text):
        """Take text; return nothing yet."""
        self.held += text
        return ""

    def flush(self):
        """Return all."""
        text, self.held = self.held, ""
        return text


def others() -> dict:
    """Return the other versions to measure."""
    return {"library": Pairs}
