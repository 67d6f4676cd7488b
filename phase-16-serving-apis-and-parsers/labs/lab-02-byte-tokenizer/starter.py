"""Lab 02: write the byte tokenizer here. README.md has the story and the tasks.

Tasks 1 to 3 need no error handling: every `Raises` below is part of task 4.
Check your work with `make lab N=02`. Stuck? `make hint N=02`.
"""

from collections.abc import Sequence


class ByteTokenizer:
    """Ids 0-255 are the bytes of UTF-8 text; 256, 257 and 258 are BOS, EOS and PAD.

    No call of any method depends on another, one that raised included.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer.encode("é!", add_special_tokens=True)
    [256, 195, 169, 33]
    >>> tokenizer.decode([256, 195, 169, 33])
    'é!'
    """

    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the ids of `text`: its UTF-8 bytes, one id each, in time linear in their number.

        The list is new, and the caller's to change.

        Args:
            text: any text. The name of a special token is plain text: `"<eos>"` is five characters.
            add_special_tokens: whether to put BOS first. Nothing is appended.

        Raises:
            ValueError: `text` has a lone surrogate, which has no UTF-8 form. The two halves of a
                UTF-16 pair are two lone surrogates in a `str`. The message has the code point of
                the first one, as `U+D800`, and its position in the text, in characters.

        >>> ByteTokenizer().encode("a🚀")
        [97, 240, 159, 154, 128]
        """
        raise NotImplementedError("lab-02 task 1: encode")

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of one id: one byte for 0-255, no bytes for a special id.

        Raises:
            ValueError: the id is outside 0-258. The message has the id.

        >>> ByteTokenizer().token_bytes(240), ByteTokenizer().token_bytes(257)
        (b'\\xf0', b'')
        """
        raise NotImplementedError("lab-02 task 2: token_bytes")

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of a whole sequence of ids.

        Ill-formed bytes become U+FFFD, one per maximal subpart, as `errors="replace"` does. The
        time is linear in the number of ids.

        Args:
            ids: ids 0-258, in a list or a tuple, which is never changed.
            skip_special_tokens: if true, special ids leave no trace: the bytes before and after
                a special id may form a character. If false, special ids are shown as `<bos>`,
                `<eos>`, `<pad>`, and no character spans a special id.

        Raises:
            ValueError: an id is outside 0-258. The message has the id and its position in `ids`,
                which counts special ids. If several ids are unknown, the first is reported.

        >>> ByteTokenizer().decode([0xF0, 0x9F, 256, 0x9A, 0x80])
        '🚀'
        >>> ByteTokenizer().decode([0xF0, 0x9F, 256, 0x9A, 0x80], skip_special_tokens=False)
        '\\ufffd<bos>\\ufffd\\ufffd'
        """
        raise NotImplementedError("lab-02 task 3: decode")
