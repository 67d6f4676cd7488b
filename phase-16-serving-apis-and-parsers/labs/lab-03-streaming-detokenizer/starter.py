"""Lab 03: write the streaming detokenizer here. README.md has the story and the tasks.

Check your work with `make lab N=03`. Stuck? `make hint N=03`.
"""


def utf8_expected_len(first_byte: int) -> int:
    """Return how many bytes a character has that starts with `first_byte`.

    Args:
        first_byte: a byte, 0-255.

    Returns:
        1, 2, 3 or 4; 0 if no character starts with it: continuation bytes (80-BF), bytes that
        start only overlong forms (C0, C1), and bytes that lead beyond U+10FFFF (F5-FF).

    Raises:
        ValueError: `first_byte` is outside 0-255; the message gives the value.

    >>> [utf8_expected_len(byte) for byte in b"a\\xc3\\xe4\\xf0"]
    [1, 2, 3, 4]
    >>> utf8_expected_len(0x80)
    0

    Source: The Unicode Standard, chapter 3, table 3-7.
    """
    raise NotImplementedError("lab-03 task 1: utf8_expected_len")


class StreamingDetokenizer:
    """Turn byte tokens into text, one token at a time.

    Ids 0-255 are bytes. Every other id, negative ones included, has no text: `feed` returns `""`
    and nothing changes, so such an id may even come inside a character.

    >>> detokenizer = StreamingDetokenizer()
    >>> [detokenizer.feed(byte) for byte in "a🚀".encode()]
    ['a', '', '', '', '🚀']
    """

    def __init__(self) -> None:
        self._held = b""

    @property
    def held(self) -> bytes:
        """The bytes that wait for the rest of their character, at most 3."""
        raise NotImplementedError("lab-03 task 2: held")

    def feed(self, token_id: int) -> str:
        """Take one token; return the text that is now certain, or `""` if there is none yet.

        The text of a stream, flush included, is that of `bytes.decode("utf-8", "replace")`. Each
        character comes out with the byte that completes it, and each U+FFFD with the byte after
        which nothing else is possible. Only bytes that can still become a character are held.

        >>> detokenizer = StreamingDetokenizer()
        >>> detokenizer.feed(0xE2), detokenizer.held
        ('', b'\\xe2')
        >>> detokenizer.feed(0x41), detokenizer.held
        ('\\ufffdA', b'')
        """
        raise NotImplementedError("lab-03 task 2: feed")

    def flush(self) -> str:
        """Return what is held as text, and start afresh.

        The end of the stream settles what was still open: a cut-off character is one U+FFFD. A
        second `flush` returns `""`. Afterwards the object is as new: what is fed next is another
        stream.

        >>> detokenizer = StreamingDetokenizer()
        >>> detokenizer.feed(0xF0), detokenizer.feed(0x9F), detokenizer.flush(), detokenizer.flush()
        ('', '', '\\ufffd', '')
        """
        raise NotImplementedError("lab-03 task 3: flush")
