"""Lab 03: write the streaming detokenizer here. README.md has the story and the tasks.

The `ValueError` of `utf8_expected_len` is part of task 3.
Check your work with `make lab N=03`. Stuck? `make hint N=03`.
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
    raise NotImplementedError("lab-03 task 1: utf8_expected_len")


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
        raise NotImplementedError("lab-03 task 2: held")

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
        raise NotImplementedError("lab-03 task 2: feed")

    def flush(self) -> str:
        """End the stream: return the held bytes as text, and reset.

        A character that is cut off at the end of the stream is one U+FFFD. A second `flush` returns
        `""`. Afterwards the object has fresh state: the next token begins another stream.

        >>> detokenizer = StreamingDetokenizer()
        >>> detokenizer.feed(0xF0), detokenizer.feed(0x9F), detokenizer.flush(), detokenizer.flush()
        ('', '', '\\ufffd', '')
        """
        raise NotImplementedError("lab-03 task 3: flush")
