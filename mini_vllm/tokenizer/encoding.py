"""The result of encoding a text: its ids, and the part of the text that each id covers."""

import hashlib
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

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
        tokens: the text of each token as the vocabulary spells it, or None if unknown.
        offsets: for each token the span of the *original* text that it covers, in characters. All
            tokens of a split character have that character's span. Special tokens that the encoder
            added have (0, 0).
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

        Two sequences have equal hashes up to the first block that differs, as a prefix cache needs.

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


def joined(parts: Sequence[tuple[int, Encoding]]) -> Encoding:
    """Return consecutive encodings as one; each part has the place at which its text starts."""
    if len(parts) == 1:
        return parts[0][1]

    def column(name: str) -> Any:
        columns = [getattr(part, name) for _, part in parts]
        return None if None in columns else tuple(chain.from_iterable(columns))

    offsets = None
    if all(part.offsets is not None for _, part in parts):
        offsets = tuple(
            (start + shift, end + shift)
            for shift, part in parts
            for start, end in part.offsets or ()
        )
    kind = parts[0][1].kind
    return Encoding(column("ids"), kind, column("tokens"), offsets, column("special_mask"))


@dataclass(frozen=True, slots=True)
class At:
    """Special tokens count at these places of the text, and nowhere else.

    Attributes:
        spans: start and end of each place, in characters; the text between is a special token.
    """

    spans: tuple[tuple[int, int], ...]


# The special tokens that count as special inside a text: the tokens with these texts, all tokens,
# or those at certain places. The name is tiktoken's.
AllowedSpecial = Collection[str] | Literal["all"] | At
NONE: frozenset[str] = frozenset()


def fixed(allowed: AllowedSpecial) -> frozenset[str] | Literal["all"] | At:
    """Return `allowed` in a form that can be a dictionary key.

    Raises:
        ValueError: `allowed` is a text other than "all".
    """
    if isinstance(allowed, At | frozenset) or allowed == "all":
        return allowed
    if isinstance(allowed, str):
        raise ValueError(
            f'allowed_special is {allowed!r:.60}; it must be "all" or a set such as {{"<s>"}}'
        )
    return frozenset(allowed)


class SpecialPlace(NamedTuple):
    """A special token in a text, including the white space that it absorbs, if any."""

    start: int
    end: int
    token: str


class SpecialFinder:
    """Finds special tokens in texts: the leftmost token, and the longest that starts there.

    Args:
        tokens: the texts of the tokens.
        lstrip: the tokens that absorb the white space before them.
        rstrip: the tokens that absorb the white space after them.
        single_word: the tokens that do not count next to a letter, digit or underscore.
    """

    def __init__(
        self,
        tokens: Iterable[str],
        *,
        lstrip: Collection[str] = (),
        rstrip: Collection[str] = (),
        single_word: Collection[str] = (),
    ) -> None:
        self._tokens = frozenset(tokens)
        self._lstrip, self._rstrip = frozenset(lstrip), frozenset(rstrip)
        self._single_word = frozenset(single_word)

    def places(self, text: str, allowed: AllowedSpecial) -> list[SpecialPlace]:
        """Return the places of the special tokens that count in `text`, from left to right."""
        allowed = fixed(allowed)
        if isinstance(allowed, At):
            spans = [span for span in allowed.spans if text[slice(*span)] in self._tokens]
        else:
            tokens = self._tokens if allowed == "all" else self._tokens & allowed
            if not tokens:
                return []
            spans = [match.span() for match in special_pattern(tokens).finditer(text)]
        places: list[SpecialPlace] = []
        for start, end in spans:
            token = text[start:end]
            if token in self._single_word and _beside_word(text, start, end):
                continue
            least = places[-1].end if places else 0
            while token in self._lstrip and start > least and text[start - 1].isspace():
                start -= 1
            while token in self._rstrip and end < len(text) and text[end].isspace():
                end += 1
            places.append(SpecialPlace(start, end, token))
        return places


def encode_between(
    text: str,
    places: Iterable[SpecialPlace],
    ids: Mapping[str, int],
    encode: Callable[[str], Encoding],
    kind: EncodingKind = EncodingKind.PLAIN,
    behind: Callable[[str], Encoding] | None = None,
) -> Encoding:
    """Return the encoding of a text whose special tokens are known.

    Args:
        text: the text.
        places: the special tokens in it.
        ids: the id of each special token.
        encode: encodes the text before, between and after the special tokens.
        kind: the kind of the encoding.
        behind: encodes the text between and after them, if that needs another encoder.
    """
    parts: list[tuple[int, Encoding]] = []
    done = 0
    for start, end, token in places:
        if start > done:
            parts.append((done, (behind if done and behind else encode)(text[done:start])))
        span = (0, end - start)
        parts.append((start, Encoding((ids[token],), kind, (token,), (span,), (False,))))
        done = end
    if done < len(text) or not parts:
        parts.append((done, (behind if done and behind else encode)(text[done:])))
    return joined(parts)


@lru_cache(maxsize=64)
def special_pattern(tokens: frozenset[str]) -> re.Pattern[str]:
    """Return a pattern for the leftmost longest token; without tokens it never matches."""
    longest_first = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _beside_word(text: str, start: int, end: int) -> bool:
    return bool(re.match(r"\w", text[start - 1 : start]) or re.match(r"\w", text[end : end + 1]))


def utf8(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        EncodeError: the text contains a lone surrogate, which has no UTF-8 form.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        surrogate = ord(text[error.start])
        raise EncodeError(
            f"lone surrogate U+{surrogate:04X} at position {error.start} has no UTF-8 form; "
            "replace it before encoding"
        ) from None
