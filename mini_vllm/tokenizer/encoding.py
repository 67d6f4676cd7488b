"""The result of encoding a text: ids, and where each of them comes from."""

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from mini_vllm.tokenizer_errors import EncodeError


class EncodingKind(Enum):
    """Which family of tokenizer made an encoding."""

    HF = "huggingface"
    SP = "sentencepiece"
    TIKTOKEN = "tiktoken"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Encoding:
    """The ids of one text.

    Attributes:
        ids: the token ids.
        kind: the family of tokenizer.
        tokens: the text of each token as the vocabulary spells it, if the tokenizer tells.
        offsets: for each token the span of the *original* text that it covers, in characters. All
            tokens of a split character have its span; special tokens that the encoder added have
            (0, 0).
        special_mask: for each token whether the encoder added it.
    """

    ids: tuple[int, ...]
    kind: EncodingKind = EncodingKind.PLAIN
    tokens: tuple[str, ...] | None = None
    offsets: tuple[tuple[int, int], ...] | None = None
    special_mask: tuple[bool, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def token_ids(self) -> list[int]:
        """Return the ids as a list that the caller may change."""
        return list(self.ids)

    def token_ids_ref(self) -> tuple[int, ...]:
        """Return the ids without a copy: the same object each time."""
        return self.ids

    def get_hash(self) -> int:
        """Return a 64-bit hash of the ids: equal for equal ids, on every machine and tokenizer.

        It is blake2b with an 8-byte digest over the ids as little-endian 32-bit words.
        """
        return int.from_bytes(_digest(self.ids), "little")

    def block_hashes(self, block_size: int) -> list[int]:
        """Return a hash for each full block of `block_size` ids, chained over the blocks before.

        Two sequences have equal hashes for as long as their blocks are equal: what a prefix cache
        looks up.

        Raises:
            ValueError: `block_size` is less than 1.
        """
        if block_size < 1:
            raise ValueError(f"block_size is {block_size}; it must be at least 1")
        hashes: list[int] = []
        chain = b""
        for start in range(0, len(self.ids) - block_size + 1, block_size):
            chain = _digest(self.ids[start : start + block_size], chain)
            hashes.append(int.from_bytes(chain, "little"))
        return hashes


def _digest(ids: Sequence[int], before: bytes = b"") -> bytes:
    data = before + struct.pack(f"<{len(ids)}I", *ids)
    return hashlib.blake2b(data, digest_size=8).digest()


def character_offsets(text: str) -> list[tuple[int, int]]:
    """Return for each UTF-8 byte of `text` the span of the character that it belongs to."""
    return [
        (position, position + 1)
        for position, char in enumerate(text)
        for _ in range(len(char.encode("utf-8", "surrogatepass")))
    ]


def encode_each(encode: Callable[[str], Encoding], texts: Iterable[str]) -> list[Encoding]:
    """Encode the texts one by one, in their order.

    Raises:
        EncodeError: one of them cannot be encoded; it has the index.
    """
    encodings = []
    for index, text in enumerate(texts):
        try:
            encodings.append(encode(text))
        except EncodeError as error:
            raise EncodeError(error.detail, index) from None
    return encodings


def utf8(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        EncodeError: it contains a lone surrogate, which has no UTF-8 form.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        surrogate = ord(text[error.start])
        raise EncodeError(
            f"lone surrogate U+{surrogate:04X} at position {error.start} has no UTF-8 form; "
            "replace it before encoding"
        ) from None
