"""A cache in front of `encode`, on two levels, that never changes a result.

L0 keeps the encodings of whole texts. L1 keeps the encodings of the segments that special tokens
end: if a chat prompt begins like an earlier prompt, or repeats its turns, only the rest is encoded.
L1 does not keep the text after the last special token, because that text differs between prompts.
L1 is for texts in which all special tokens count; if only some count, the text is kept as a whole.

L1 relies on a tokenizer that always splits at some special tokens, so that the encoding of a text
consists of those of its segments; it is refused for other tokenizers. A cache belongs to one
tokenizer object, and is neither shared nor saved: a copy or a pickle has an empty cache.
"""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from sys import getsizeof
from typing import Any, Literal

from mini_vllm.tokenizer.encoding import (
    NONE,
    AllowedSpecial,
    At,
    Encoding,
    EncodingKind,
    fixed,
    joined,
    special_pattern,
)
from mini_vllm.tokenizer.protocols import Encoder, Tokenizer
from mini_vllm.tokenizer.wrapper import TokenizerWrapper

_Allowed = frozenset[str] | Literal["all"]
_Key = tuple[str, bool, _Allowed]


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """The levels of a cache, and their sizes.

    Args:
        enable_l0: keep the encodings of whole texts.
        l0_max_entries: the largest number of texts in L0.
        l0_max_memory: the largest size of L0, in bytes.
        enable_l1: keep the encodings of segments that special tokens end.
        l1_max_memory: the largest size of L1, in bytes.
        only_ids: keep and return encodings without tokens, offsets and mask, as 4 bytes an id. They
            take a tenth of the memory or less.

    Raises:
        ValueError: a bound is not positive.
    """

    enable_l0: bool = True
    l0_max_entries: int = 10_000
    l0_max_memory: int = 200 * 2**20
    enable_l1: bool = False
    l1_max_memory: int = 50 * 2**20
    only_ids: bool = False

    def __post_init__(self) -> None:
        for name in ("l0_max_entries", "l0_max_memory", "l1_max_memory"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def suited_to(self, tokenizer: Tokenizer) -> "CacheConfig":
        """Return these bounds with L1 on or off, as the tokenizer allows."""
        return replace(self, enable_l1=_splits_at_specials(tokenizer) is not None)


@dataclass(frozen=True, slots=True)
class LevelStats:
    """The look-ups of a level since it was made, and its present size (memory in bytes)."""

    hits: int = 0
    misses: int = 0
    entries: int = 0
    memory: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of look-ups that were hits; 0 before the first look-up."""
        return self.hits / max(1, self.hits + self.misses)


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The state of both levels: L0 counts texts, L1 segments. A level that is off is None."""

    l0: LevelStats | None = None
    l1: LevelStats | None = None


class CachedTokenizer(TokenizerWrapper):
    """A tokenizer that remembers its encodings. Threads may share it.

    Args:
        inner: the tokenizer. L1 needs its attribute `splits_at_specials`: the special tokens whose
            text is always cut out first, alone. Text after such a token is encoded like text at the
            start, without special tokens.
        config: the levels; by default L0 alone.

    Raises:
        ValueError: L1 is enabled, and `inner` does not say that it splits at special tokens.
    """

    def __init__(self, inner: Tokenizer, config: CacheConfig | None = None) -> None:
        super().__init__(inner)
        inner = self.inner
        config = config or CacheConfig()
        self._only_ids = config.only_ids
        self._texts = _Level(config.l0_max_memory, config.l0_max_entries, only_ids=config.only_ids)
        self._texts_on = config.enable_l0
        self._segments = _Level(config.l1_max_memory, only_ids=config.only_ids)
        self._segments_on = config.enable_l1
        if config.enable_l1:
            cuts = _splits_at_specials(inner)
            if cuts is None:
                raise ValueError(
                    f"{type(inner).__name__} cannot be cached by segments (enable_l1): it does not "
                    "say that it splits at its special tokens. Such tokens may take the spaces "
                    "beside them, or be normalised; there may be a prefix space, or special tokens "
                    "at the end. Set enable_l1=False"
                )
            self._special = special_pattern(cuts)

    @property
    def stats(self) -> CacheStats:
        """The hits, misses and sizes of the levels at this moment."""
        return CacheStats(
            self._texts.stats() if self._texts_on else None,
            self._segments.stats() if self._segments_on else None,
        )

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the inner tokenizer's encoding of `text`; on a hit in L0 the same object again.

        With `only_ids`, a hit is an equal object.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        allowed = fixed(allowed_special)
        if isinstance(allowed, At):
            # Rare, and never repeated.
            return self._encode_inner(text, add_special_tokens, allowed)
        segments = self._segments_on and allowed == "all"
        encode = self._encode_segments if segments else self._encode_inner
        if self._texts_on:
            return self._texts.encode((text, add_special_tokens, allowed), encode)
        return encode(text, add_special_tokens, allowed)

    # One by one, because each text may be in the cache.
    encode_batch = Encoder.encode_batch

    def clear(self) -> None:
        """Forget all encodings. The counts of hits and misses stay."""
        self._texts.clear()
        self._segments.clear()

    def _encode_inner(
        self, text: str, add_special_tokens: bool, allowed: _Allowed | At
    ) -> Encoding:
        encoding = self.inner.encode(
            text, add_special_tokens=add_special_tokens, allowed_special=allowed
        )
        return Encoding(encoding.ids, encoding.kind) if self._only_ids else encoding

    def _encode_segments(self, text: str, add_special_tokens: bool, allowed: _Allowed) -> Encoding:
        parts: list[tuple[int, Encoding]] = []
        start = 0
        for match in self._special.finditer(text):
            segment, special = text[start : match.end()], add_special_tokens and not start
            key = (segment, special, allowed)
            parts.append((start, self._segments.encode(key, self._encode_inner)))
            start = match.end()
        if start < len(text) or not parts:
            special = add_special_tokens and not parts
            parts.append((start, self._encode_inner(text[start:], special, allowed)))
        return joined(parts)


def _splits_at_specials(tokenizer: Tokenizer) -> frozenset[str] | None:
    return getattr(tokenizer, "splits_at_specials", None)


@dataclass(frozen=True, slots=True)
class _Ids:
    """The ids of an encoding, without an object for each."""

    ids: "array[int]"
    kind: EncodingKind

    def encoding(self) -> Encoding:
        return Encoding(tuple(self.ids), self.kind)


class _Level:
    """Encodings by text, the least recently used first, within bounds of number and memory."""

    def __init__(
        self, max_memory: int, max_entries: float = float("inf"), *, only_ids: bool = False
    ) -> None:
        self._only_ids = only_ids
        self._max_memory = max_memory
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, tuple[Encoding | _Ids, int]] = OrderedDict()
        self._memory = self._hits = self._misses = 0

    def encode(self, key: _Key, encode: Callable[[str, bool, _Allowed], Encoding]) -> Encoding:
        """Return the cached encoding of a key; without one, call `encode` and cache its result."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._hits += 1
                self._entries.move_to_end(key)
            else:
                self._misses += 1
        if entry is not None:
            stored = entry[0]
            return stored.encoding() if isinstance(stored, _Ids) else stored
        # Outside the lock: other threads need not wait, but two may encode the same text.
        encoding = encode(*key)
        self._put(key, encoding)
        return encoding

    def _put(self, key: _Key, encoding: Encoding) -> None:
        stored = _Ids(array("I", encoding.ids), encoding.kind) if self._only_ids else encoding
        size = _size(key, stored)
        with self._lock:
            # Do not keep an entry that would replace all others and still not fit.
            if size > self._max_memory or key in self._entries:
                return
            self._entries[key] = stored, size
            self._memory += size
            while self._memory > self._max_memory or len(self._entries) > self._max_entries:
                self._memory -= self._entries.popitem(last=False)[1][1]

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(_Level, only_ids=self._only_ids)
        return make, (self._max_memory, self._max_entries)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._memory = 0

    def stats(self) -> LevelStats:
        with self._lock:
            return LevelStats(self._hits, self._misses, len(self._entries), self._memory)


# A dictionary's slot, the links of its order and the value's tuple, as measured on CPython 3.11.
_ENTRY_BYTES = 160
_ID_BYTES = getsizeof(2**29)
_SPAN_BYTES = getsizeof((0, 0)) + 2 * _ID_BYTES


def _size(key: _Key, encoding: Encoding | _Ids) -> int:
    """Return the bytes that an entry takes; objects that entries share count in full."""
    if isinstance(encoding, _Ids):
        return sum(map(getsizeof, (key, key[0], encoding, encoding.ids))) + _ENTRY_BYTES
    columns = (encoding.ids, encoding.tokens, encoding.offsets, encoding.special_mask)
    return (
        sum(map(getsizeof, (key, key[0], encoding, *columns)))
        + sum(map(getsizeof, encoding.tokens or ()))
        + len(encoding.ids) * _ID_BYTES
        + len(encoding.offsets or ()) * _SPAN_BYTES
        + _ENTRY_BYTES
    )
