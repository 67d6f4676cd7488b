"""Write pairs here."""


class Pairs:
    """Emit characters two by two."""

    def __init__(self) -> None:
        self._held = ""

    @property
    def held(self) -> str:
        """What waits."""
        raise NotImplementedError("lab-90 task 1: held")

    def feed(self, text: str) -> str:
        """Take text; return whole pairs."""
        raise NotImplementedError("lab-90 task 1: feed")

    def flush(self) -> str:
        """Return the rest."""
        raise NotImplementedError("lab-90 task 2: flush")
