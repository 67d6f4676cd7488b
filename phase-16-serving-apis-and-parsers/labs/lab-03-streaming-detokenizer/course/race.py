"""The race of lab 03: 20,000 tokens of one byte each, well-formed text in several scripts.

The naive version decodes the whole text for each token.
"""

UNIT = "token"
CLASS = "StreamingDetokenizer"
ARGUMENTS = ()
NAIVE = "decoding of the whole text"


def workload() -> list[int]:
    """Return the ids."""
    text = "A naïve café — 你好，世界 — नमस्ते — 🚀🇫🇷 — plain ASCII in between, as most text is. "
    return list((text * 200).encode())[:20_000]


class StreamingDetokenizer:
    """Keep every byte, decode all of them at each token, and return the text not yet emitted.

    But: it holds text that really ends in U+FFFD.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self._shown = 0

    @property
    def held(self) -> bytes:
        """All bytes of the stream, emitted or not."""
        return self._bytes

    def feed(self, token_id: int) -> str:
        """Feed one token; return the new end of the whole text."""
        self._bytes += bytes([token_id])
        text = self._bytes.decode("utf-8", "replace").rstrip("\ufffd")
        new = text[self._shown :]
        self._shown = len(text)
        return new

    def flush(self) -> str:
        """End the stream; return the text not yet emitted."""
        new = self._bytes.decode("utf-8", "replace")[self._shown :]
        self._bytes, self._shown = b"", 0
        return new
