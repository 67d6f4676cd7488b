"""A tokenizer whose tokens are the 256 bytes, plus three special ids.

It is the smallest tokenizer with the property that makes streaming hard: a character may span
several tokens. It knows every text, needs no file, and any id sequence decodes to something.

But:
- It does not compress: one token a byte.
- It does not stream; `decode` wants the whole sequence.
"""

from collections.abc import Iterable

_SPECIAL_TEXT = {256: "<bos>", 257: "<eos>", 258: "<pad>"}


class ByteTokenizer:
    """Ids 0-255 are bytes; 256, 257 and 258 are BOS, EOS and PAD."""

    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Return the UTF-8 bytes of `text` as ids, with BOS in front if asked.

        Raises:
            ValueError: `text` holds a lone surrogate, which has no UTF-8 form.
        """
        try:
            ids = list(text.encode("utf-8"))
        except UnicodeEncodeError as error:
            surrogate = ord(text[error.start])
            raise ValueError(
                f"lone surrogate U+{surrogate:04X} at position {error.start} has no UTF-8 form; "
                "replace it before encoding"
            ) from None
        return [self.bos_token_id, *ids] if add_special_tokens else ids

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        r"""Return the text of `ids`, one U+FFFD per maximal subpart of ill-formed bytes.

        A skipped special id is transparent: the bytes around it may form one character. A shown one
        (`<bos>`, `<eos>`, `<pad>`) ends the character before it.

        Raises:
            ValueError: an id is outside 0-258.
        """
        parts: list[str] = []
        run = bytearray()
        for position, token_id in enumerate(ids):
            if 0 <= token_id <= 255:
                run.append(token_id)
            elif token_id not in _SPECIAL_TEXT:
                raise ValueError(_bad_id(token_id) + f" at position {position}")
            elif not skip_special_tokens:
                parts += run.decode("utf-8", "replace"), _SPECIAL_TEXT[token_id]
                run.clear()
        parts.append(run.decode("utf-8", "replace"))
        return "".join(parts)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that an id stands for; special ids stand for none.

        Raises:
            ValueError: the id is outside 0-258.
        """
        if 0 <= token_id <= 255:
            return bytes([token_id])
        if token_id not in _SPECIAL_TEXT:
            raise ValueError(_bad_id(token_id))
        return b""


def _bad_id(token_id: int) -> str:
    return f"token id {token_id} is outside 0-258"
