"""A streaming UTF-8 detokenizer for byte tokens: emits complete characters, holds at most 3 bytes.

It follows the exact rule, not the table of first bytes alone: the byte after which a sequence
cannot become a character also settles the sequence, as one U+FFFD for its maximal subpart. WHATWG
decoders and CPython's `errors="replace"` return the same text.

It completes code points. Joining code points into one visible glyph is the terminal's work.
"""


def utf8_expected_len(first_byte: int) -> int:
    """Return how many bytes a character has that starts with `first_byte`.

    Args:
        first_byte: a byte, 0-255.

    Returns:
        1, 2, 3 or 4; or 0 if no character starts with `first_byte`: continuation bytes (80-BF),
        bytes that start only overlong forms (C0, C1), and bytes that lead beyond U+10FFFF (F5-FF).

    Raises:
        ValueError: `first_byte` is outside 0-255. The message has the value.

    >>> [utf8_expected_len(byte) for byte in b"a\\xc3\\xe4\\xf0"]
    [1, 2, 3, 4]
    >>> utf8_expected_len(0x80)
    0

    Source: The Unicode Standard, chapter 3, table 3-7.
    """
    if not 0 <= first_byte <= 255:
        raise ValueError(f"{first_byte} is not a byte (0-255)")
    if first_byte < 0x80:
        return 1
    if 0xC2 <= first_byte <= 0xDF:
        return 2
    if 0xE0 <= first_byte <= 0xEF:
        return 3
    if 0xF0 <= first_byte <= 0xF4:
        return 4
    return 0


# The four first bytes after which not every continuation byte is legal: the others would
# spell overlong forms (E0, F0), surrogates (ED), or more than U+10FFFF (F4). Unicode, table 3-7.
_SECOND_BYTE = {
    0xE0: range(0xA0, 0xC0),
    0xED: range(0x80, 0xA0),
    0xF0: range(0x90, 0xC0),
    0xF4: range(0x80, 0x90),
}
_CONTINUATION = range(0x80, 0xC0)


class StreamingDetokenizer:
    """Turn byte tokens into text, one token at a time.

    Ids 0-255 are bytes. Every other id, negative ids included, has no text: `feed` returns `""`
    and changes nothing, so such an id may even occur inside a character.

    >>> detokenizer = StreamingDetokenizer()
    >>> [detokenizer.feed(byte) for byte in "a🚀".encode()]
    ['a', '', '', '', '🚀']
    """

    def __init__(self) -> None:
        self._held = b""

    @property
    def held(self) -> bytes:
        """The bytes that can still become a character with the next bytes, at most 3.

        Reading it changes nothing.
        """
        return self._held

    def feed(self, token_id: int) -> str:
        """Feed one token; return the text that is now certain, or `""` if there is none.

        The text of a stream, flush included, is that of `bytes.decode("utf-8", "replace")`. Each
        character is emitted with the byte that completes it, and each U+FFFD with the byte that
        makes it certain. Only bytes that can still become a character are held, and memory does not
        grow with the emitted text.

        >>> detokenizer = StreamingDetokenizer()
        >>> detokenizer.feed(0xE2), detokenizer.held
        ('', b'\\xe2')
        >>> detokenizer.feed(0x41), detokenizer.held
        ('\\ufffdA', b'')
        """
        if not 0 <= token_id <= 255:
            return ""
        broken = ""
        if self._held and token_id not in self._legal_next():
            broken = self._take_held()
        self._held += bytes([token_id])
        length = utf8_expected_len(self._held[0])
        if length == 0 or len(self._held) == length:
            return broken + self._take_held()
        return broken

    def flush(self) -> str:
        """End the stream: return the held bytes as text, and reset.

        A character that is cut off at the end of the stream is one U+FFFD. A second `flush` returns
        `""`. Afterwards the object has fresh state: the next token begins another stream.

        >>> detokenizer = StreamingDetokenizer()
        >>> detokenizer.feed(0xF0), detokenizer.feed(0x9F), detokenizer.flush(), detokenizer.flush()
        ('', '', '\\ufffd', '')
        """
        return self._take_held()

    def _take_held(self) -> str:
        text = self._held.decode("utf-8", "replace")
        self._held = b""
        return text

    def _legal_next(self) -> range:
        if len(self._held) == 1:
            return _SECOND_BYTE.get(self._held[0], _CONTINUATION)
        return _CONTINUATION
