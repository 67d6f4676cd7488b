"""A tokenizer whose tokens are the 256 bytes, plus three special ids.

It is the smallest tokenizer with the property that makes streaming hard: a character may span
several tokens. It knows every text, needs no file, and decodes any id sequence. It does not
compress: each byte is a token.
"""

from collections.abc import Iterable

from mini_vllm.tokenizer.encoding import (
    NONE,
    AllowedSpecial,
    Encoding,
    SpecialFinder,
    character_offsets,
    encode_between,
    utf8,
)
from mini_vllm.tokenizer.ids import plain_ids
from mini_vllm.tokenizer.pieces import Piece, PieceTable
from mini_vllm.tokenizer.protocols import Encoder, SpecialTokens

_SPECIAL_TEXT = {256: "<bos>", 257: "<eos>", 258: "<pad>"}
_SPECIAL_ID = {text: token_id for token_id, text in _SPECIAL_TEXT.items()}
_FINDER = SpecialFinder(_SPECIAL_ID)
_BYTES: list[Piece] = [bytes([byte]) for byte in range(256)]
_COLUMN: list[Piece] = [*_BYTES, *(text.encode() for text in _SPECIAL_TEXT.values())]
_PIECES = PieceTable(_COLUMN, _COLUMN, frozenset(_SPECIAL_TEXT))


class ByteTokenizer(Encoder):
    """Ids 0-255 are bytes; 256, 257 and 258 are BOS, EOS and PAD. Other ids are skipped."""

    bos_token_id = 256
    eos_token_id = 257
    pad_token_id = 258
    vocab_size = 259
    special_tokens = SpecialTokens(bos="<bos>", eos="<eos>", pad="<pad>")
    eos_token_ids = frozenset([257])
    pieces: PieceTable | None = _PIECES

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the UTF-8 bytes of `text` as ids, with BOS in front if requested.

        Special tokens are plain text, unless they are allowed.

        Raises:
            EncodeError: `text` contains a lone surrogate, which has no UTF-8 form.
        """
        places = _FINDER.places(text, allowed_special)
        plain = encode_between(text, places, _SPECIAL_ID, _plain)
        if not add_special_tokens:
            return plain
        assert plain.offsets is not None
        assert plain.special_mask is not None
        return Encoding(
            (self.bos_token_id, *plain.ids),
            offsets=((0, 0), *plain.offsets),
            special_mask=(True, *plain.special_mask),
        )

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        r"""Return the text of `ids`, one U+FFFD per maximal subpart of ill-formed bytes.

        A skipped special id is transparent: the bytes around it may form one character. A shown
        special id (`<bos>`, `<eos>`, `<pad>`) ends the character before it. Unknown ids add
        nothing.
        """
        parts: list[str] = []
        run = bytearray()
        for token_id in plain_ids(ids):
            if 0 <= token_id <= 255:
                run.append(token_id)
            elif token_id in _SPECIAL_TEXT and not skip_special_tokens:
                parts += run.decode("utf-8", "replace"), _SPECIAL_TEXT[token_id]
                run.clear()
        parts.append(run.decode("utf-8", "replace"))
        return "".join(parts)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of an id: `b""` for special and unknown ids."""
        return bytes([token_id]) if 0 <= token_id <= 255 else b""

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a special token's name or of a single ASCII character, or None."""
        if len(token) == 1 and token.isascii():
            return ord(token)
        return _SPECIAL_ID.get(token)

    def id_to_token(self, token_id: int) -> str | None:
        """Return the text of an id; None for a byte that is not a character by itself."""
        if 0 <= token_id < 128:
            return chr(token_id)
        return _SPECIAL_TEXT.get(token_id)


def _plain(text: str) -> Encoding:
    ids = tuple(utf8(text))
    offsets = tuple(character_offsets(text))
    return Encoding(ids, offsets=offsets, special_mask=(False,) * len(ids))
