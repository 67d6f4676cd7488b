"""The detokenizer that this lab hands to the code under test; it is easy to follow."""

import codecs
from collections.abc import Sequence


class Pieces:
    """A detokenizer: ids 0-255 are bytes; the ids from 256 on are the pieces of a table.

    All other ids have no text. A character is emitted with the token that completes it.

    Args:
        table: the bytes of the ids from 256 on; a piece may begin or end inside a character.
    """

    def __init__(self, table: Sequence[bytes] = ()) -> None:
        self._table = [bytes([byte]) for byte in range(256)] + [*table]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def held(self) -> bytes:
        """The bytes of an incomplete character."""
        return self._decoder.getstate()[0]

    def feed(self, token_id: int) -> str:
        """Take one token; return the text that is now certain."""
        known = 0 <= token_id < len(self._table)
        return self._decoder.decode(self._table[token_id] if known else b"")

    def flush(self) -> str:
        """Return U+FFFD for half a character, else ""; then start with fresh state."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
