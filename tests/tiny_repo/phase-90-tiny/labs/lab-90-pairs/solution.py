"""Pairs of characters."""


class Pairs:
    """Emit characters two by two."""

    def __init__(self) -> None:
        self._held = ""

    @property
    def held(self) -> str:
        """What waits."""
        return self._held

    def feed(self, text: str) -> str:
        """Take text; return whole pairs."""
        text = self._held + text
        even = len(text) // 2 * 2
        self._held = text[even:]
        return text[:even]

    def flush(self) -> str:
        """Return the rest."""
        rest, self._held = self._held, ""
        return rest
