"""The smallest complete tokenizer: one id per UTF-8 byte, and three special ids without text.

It does not compress: a real tokenizer has one id for each of many frequent byte sequences. It
decodes whole sequences; decoding a stream is lab-03.
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
        try:
            ids = list(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            code_point = ord(text[error.start])
            raise ValueError(
                f"U+{code_point:04X} at position {error.start} is a lone surrogate "
                "and has no UTF-8 form"
            ) from None
        return [self.bos_token_id, *ids] if add_special_tokens else ids

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of one id: one byte for 0-255, no bytes for a special id.

        Raises:
            ValueError: the id is outside 0-258. The message has the id.

        >>> ByteTokenizer().token_bytes(240), ByteTokenizer().token_bytes(257)
        (b'\\xf0', b'')
        """
        if 0 <= token_id <= 255:
            return bytes([token_id])
        if token_id not in _SPECIAL_TEXT:
            raise ValueError(f"id {token_id} is not in the vocabulary (0-258)")
        return b""

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
        texts: list[str] = []
        run = bytearray()
        for position, token_id in enumerate(ids):
            try:
                run += self.token_bytes(token_id)
            except ValueError as error:
                raise ValueError(f"{error}, at position {position}") from None
            if token_id in _SPECIAL_TEXT and not skip_special_tokens:
                texts += [run.decode("utf-8", "replace"), _SPECIAL_TEXT[token_id]]
                run.clear()
        return "".join(texts) + run.decode("utf-8", "replace")


_SPECIAL_TEXT = {256: "<bos>", 257: "<eos>", 258: "<pad>"}
