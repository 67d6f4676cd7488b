"""A cache in front of `encode`, on two levels, that never changes a result.

L0 keeps the encodings of whole texts. L1 keeps those of the segments that special tokens end: a
chat prompt that begins like an earlier one, or repeats its turns, has only the rest encoded. Where
a tokenizer always splits at its special tokens, a text's encoding is that of its segments in a row;
L1 is refused where it does not.

But:
- The cache belongs to one tokenizer object, and is not shared or saved.
- L0 is bounded by the number of texts, not by their length.
- The text after the last special token is not kept by L1: it is what differs between prompts.
"""

import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from sys import getsizeof
from typing import Any

from mini_vllm.tokenizer.encoding import Encoding, encode_each
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.wrapper import TokenizerWrapper


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Which levels there are, and how large.

    Args:
        enable_l0: keep the encodings of whole texts.
        l0_max_entries: of at most so many texts.
        enable_l1: keep the encodings of segments that special tokens end.
        l1_max_memory: in at most so many bytes.

    Raises:
        ValueError: a bound is not positive.
    """

    enable_l0: bool = True
    l0_max_entries: int = 10_000
    enable_l1: bool = False
    l1_max_memory: int = 50 * 2**20

    def __post_init__(self) -> None:
        for name in ("l0_max_entries", "l1_max_memory"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache has found (texts in L0, segments in L1), what it has not, and what it holds."""

    l0_hits: int = 0
    l0_misses: int = 0
    l0_entries: int = 0
    l1_hits: int = 0
    l1_misses: int = 0
    l1_entries: int = 0
    l1_memory: int = 0


class CachedTokenizer(TokenizerWrapper):
    """A tokenizer that remembers what it has encoded. Threads may share it.

    Args:
        inner: the tokenizer. L1 needs its attribute `splits_at_specials` to be true: it says that
            the text of each of its special tokens is always cut out first, alone, and that the
            text after one is encoded as if it stood at the start, without special tokens.
        config: the levels; by default L0 alone.

    Raises:
        ValueError: L1 is asked for and `inner` does not say that it splits at special tokens.
    """

    def __init__(self, inner: Tokenizer, config: CacheConfig | None = None) -> None:
        super().__init__(inner)
        config = config or CacheConfig()
        self._segments: _Segments | None = None
        if config.enable_l1:
            if not getattr(inner, "splits_at_specials", False):
                raise ValueError(
                    f"{type(inner).__name__} cannot be cached by segments (enable_l1): it does not "
                    "say that it splits at its special tokens. Such tokens may take the spaces "
                    "beside them, or be normalised; there may be a prefix space, or special tokens "
                    "at the end. Set enable_l1=False"
                )
            self._segments = _Segments(config.l1_max_memory)
            longest_first = sorted(inner.special_tokens.all(), key=len, reverse=True)
            # Without special tokens nothing may match; an empty pattern would, everywhere.
            self._special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        size = config.l0_max_entries if config.enable_l0 else 0
        self._texts = functools.lru_cache(size)(self._encode)

    @property
    def stats(self) -> CacheStats:
        """What was found and what is held at this moment."""
        texts = self._texts.cache_info()
        whole = (texts.hits, texts.misses, texts.currsize)
        return CacheStats(*whole, *(self._segments.stats() if self._segments else ()))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Encoding:
        """Return what the inner tokenizer's `encode` returns, with L0 the same object again.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        return self._texts(text, add_special_tokens)

    def encode_batch(
        self, texts: Iterable[str], *, add_special_tokens: bool = False
    ) -> list[Encoding]:
        """Return the encodings of the texts, in their order.

        Raises:
            EncodeError: one of them cannot be encoded; it has the index.
        """
        return encode_each(
            lambda text: self.encode(text, add_special_tokens=add_special_tokens), texts
        )

    def clear(self) -> None:
        """Forget all encodings; the hits and misses of L0 count from zero again."""
        self._texts.cache_clear()
        if self._segments:
            self._segments.clear()

    def _encode(self, text: str, add_special_tokens: bool) -> Encoding:
        if self._segments is None:
            return self.inner.encode(text, add_special_tokens=add_special_tokens)
        parts: list[tuple[int, Encoding]] = []
        start = 0
        for match in self._special.finditer(text):
            segment = text[start : match.end()]
            parts.append((start, self._encode_segment(segment, add_special_tokens and not start)))
            start = match.end()
        if start < len(text) or not parts:
            rest_is_all = add_special_tokens and not parts
            rest = self.inner.encode(text[start:], add_special_tokens=rest_is_all)
            parts.append((start, rest))
        return _joined(parts)

    def _encode_segment(self, segment: str, add_special_tokens: bool) -> Encoding:
        assert self._segments is not None
        key = (segment, add_special_tokens)
        encoding = self._segments.get(key)
        if encoding is None:
            encoding = self.inner.encode(segment, add_special_tokens=add_special_tokens)
            self._segments.put(key, encoding)
        return encoding


_Key = tuple[str, bool]


class _Segments:
    """Encodings by segment, the least recently used first, within a bound of memory."""

    def __init__(self, max_memory: int) -> None:
        self._max_memory = max_memory
        self._lock = threading.Lock()
        self._entries: OrderedDict[_Key, tuple[Encoding, int]] = OrderedDict()
        self._memory = self._hits = self._misses = 0

    def get(self, key: _Key) -> Encoding | None:
        with self._lock:
            if key not in self._entries:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: _Key, encoding: Encoding) -> None:
        size = _size(key, encoding)
        with self._lock:
            # What would empty the cache and still not fit is not worth it.
            if size > self._max_memory or key in self._entries:
                return
            self._entries[key] = encoding, size
            self._memory += size
            while self._memory > self._max_memory:
                self._memory -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._memory = 0

    def stats(self) -> tuple[int, int, int, int]:
        with self._lock:
            return self._hits, self._misses, len(self._entries), self._memory


# A dictionary's slot, the links of its order and the value's tuple, as measured on CPython 3.11.
_ENTRY_BYTES = 160
_ID_BYTES = getsizeof(2**29)
_SPAN_BYTES = getsizeof((0, 0)) + 2 * _ID_BYTES


def _size(key: _Key, encoding: Encoding) -> int:
    """Return the bytes that an entry takes, as if it shared no object with another."""
    columns = (encoding.ids, encoding.tokens, encoding.offsets, encoding.special_mask)
    return (
        sum(map(getsizeof, (key, key[0], encoding, *columns)))
        + sum(map(getsizeof, encoding.tokens or ()))
        + len(encoding.ids) * _ID_BYTES
        + len(encoding.offsets or ()) * _SPAN_BYTES
        + _ENTRY_BYTES
    )


def _joined(parts: Sequence[tuple[int, Encoding]]) -> Encoding:
    """Return the encodings in a row; each comes with the place where its text starts."""
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
