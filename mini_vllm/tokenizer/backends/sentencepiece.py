"""Tokenizers in SentencePiece's format, `.model` files, on the `sentencepiece` library.

The pieces of a text are its bytes, except at the start: there the library drops the leading space
that it added when it encoded. For the library, control tokens such as `<s>` have no text; here they
are special tokens, shown as text unless they are skipped.

The library itself is imported when the first model is loaded. It does not tell all that streams
need, nor where a file is cut off, so the model's protobuf is also read here. The message, by field
number: 1 a piece (1 text, 2 score, 3 type), 2 the trainer's settings, 3 those of the normalizer, 5
those of the denormalizer.

But:
- On ill-formed bytes the text is byte-exact, one U+FFFD per maximal subpart; the library has one
  per byte.
- Control tokens written in a text are plain text, unless they are allowed: then the text between
  them is encoded piece by piece, each with a space in front where the model adds one, as llama.cpp
  and mistral-common do. User-defined pieces always count: they are part of the model's language.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import (
    NONE,
    AllowedSpecial,
    Encoding,
    EncodingKind,
    SpecialFinder,
    encode_between,
    joined,
    utf8,
)
from mini_vllm.tokenizer.pieces import Piece, PieceTable, State, StreamTable
from mini_vllm.tokenizer.protocols import SpecialTokens
from mini_vllm.tokenizer.special_tokens import eos_token_ids_of
from mini_vllm.tokenizer_errors import (
    CorruptModelFile,
    MissingLibrary,
    UnsupportedFormat,
    checked_file,
)

if TYPE_CHECKING:
    import sentencepiece

_SPACE = "▁"
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_UNIGRAM, _BPE = 1, 2

Span = tuple[int, int]


class PieceType(IntEnum):
    """What a piece is, in the numbers that GGUF uses as well."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class ModelPiece(NamedTuple):
    """One entry of a vocabulary; its id is its place."""

    text: str
    score: float
    type: PieceType


class ModelFlags(NamedTuple):
    """What `decode` depends on besides the pieces.

    Attributes:
        add_dummy_prefix: a text gets a space in front before it is encoded.
        remove_extra_whitespaces: a text is stripped, and runs of spaces become one.
    """

    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True


class SentencePieceTokenizer(VocabularyTokenizer):
    """A `SentencePieceProcessor` behind our protocols.

    Make it with `from_file`.

    Args:
        model: the serialised model.
        path: where it is from, for errors.
        prefix: ids that `add_special_tokens` puts in front; by default BOS, if there is one.
        suffix: ids that it puts at the end.
        lstrip: special tokens that take in the white space before them.
        rstrip: those that take in the white space behind them.
    """

    def __init__(
        self,
        model: bytes,
        path: str | Path,
        *,
        prefix: Sequence[int] | None = None,
        suffix: Sequence[int] = (),
        lstrip: frozenset[str] = frozenset(),
        rstrip: frozenset[str] = frozenset(),
    ) -> None:
        self._flags = read_flags(model, path)
        self._inner = inner = _load(model, path)
        try:
            tokens = [inner.id_to_piece(token_id) for token_id in range(inner.vocab_size())]
        except UnicodeDecodeError as error:
            raise CorruptModelFile(path, None, f"a piece is not UTF-8: {error}") from None
        self._control = [i for i in range(len(tokens)) if inner.is_control(i)]
        roles = {
            role: tokens[token_id]
            for role in ("bos", "eos", "unk", "pad")
            if (token_id := getattr(inner, f"{role}_id")()) >= 0
        }
        rest = tuple(tokens[i] for i in self._control if tokens[i] not in roles.values())
        super().__init__(
            {token: token_id for token_id, token in enumerate(tokens)},
            special_tokens=SpecialTokens(**roles, additional=rest),
        )
        bos = inner.bos_id()
        self._prefix = (bos,) * (bos >= 0) if prefix is None else tuple(prefix)
        self._suffix = tuple(suffix)
        self._finder = SpecialFinder(self.special_tokens.all(), lstrip=lstrip, rstrip=rstrip)

    @classmethod
    def from_file(cls, path: str | Path) -> "SentencePieceTokenizer":
        """Read a `.model` file, and the ids that end a generation from the files beside it.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            CorruptModelFile: it is damaged or not a model, or a configuration file is damaged.
            UnsupportedFormat: it rewrites text in a way that cannot be streamed, or is far too
                large.
        """
        path = checked_file(path)
        tokenizer = cls(path.read_bytes(), path)
        tokenizer.eos_token_ids |= eos_token_ids_of(path.parent)
        return tokenizer

    @cached_property
    def pieces(self) -> PieceTable:
        """The bytes of each id, anywhere and at the start of a text."""
        special = frozenset(self._control)
        rest: list[Piece] = []
        first: list[Piece] = []
        for token_id in range(self.vocab_size):
            token = self._tokens[token_id]
            if token_id in special:
                rest.append(token.encode())
            elif self._inner.is_byte(token_id):
                rest.append(bytes([int(token[3:5], 16)]))
            elif self._inner.is_unknown(token_id):
                rest.append(self._inner.decode([token_id]).encode())
            else:
                rest.append(_spaced(token))
                first.append(_spaced(token.removeprefix(_SPACE)))
                continue
            first.append(rest[-1])
        if self._flags.remove_extra_whitespaces:
            return PieceTable(rest, first, special, StrippedStartTable)
        return PieceTable(rest, first if self._flags.add_dummy_prefix else rest, special)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the encoding of `text`; special tokens in it are plain text unless allowed.

        Offsets are spans of `text` as it was, even where the model normalises it.

        Raises:
            EncodeError: `text` contains a lone surrogate.
        """
        utf8(text)
        places = self._finder.places(text, allowed_special)
        found = encode_between(text, places, self._ids, self._between, EncodingKind.SP)
        if not add_special_tokens:
            return found
        return joined([self._added(self._prefix), (0, found), self._added(self._suffix)])

    def _between(self, text: str) -> Encoding:
        """Return the encoding of a text without special tokens."""
        found = self._inner.encode(text, return_type="offset_mapping")
        ids = tuple(found["ids"])
        return Encoding(
            ids,
            EncodingKind.SP,
            tuple(self._tokens[token_id] for token_id in ids),
            tuple(self._whole_characters(ids, found["offsets"])),
            (False,) * len(ids),
        )

    def _added(self, ids: tuple[int, ...]) -> tuple[int, Encoding]:
        tokens = tuple(self._tokens[token_id] for token_id in ids)
        size = len(ids)
        return 0, Encoding(ids, EncodingKind.SP, tokens, ((0, 0),) * size, (True,) * size)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`, the same as a stream gives.

        A skipped special token is transparent: the bytes around it may form one character.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        table = self.pieces.skipping if skip_special_tokens else self.pieces.showing
        return table.text(self.known(ids))

    def _whole_characters(self, ids: Sequence[int], offsets: list[Span]) -> list[Span]:
        """Give all bytes of a split character its span; the library gives it only to the last."""
        spans = list(offsets)
        for place in range(len(ids) - 2, -1, -1):
            start, end = spans[place]
            following = spans[place + 1]
            if start == end == following[0] and self._inner.is_byte(ids[place]):
                spans[place] = following
        return spans


class StrippedStartTable(StreamTable):
    """Models that remove extra spaces: a piece loses a leading one while the text is empty."""

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the state after the ids of a prompt."""
        known = (i for i in prompt if 0 <= i < len(self._first))
        return super().state_after(prompt) if any(self._first[i] for i in known) else self.start

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the text that an id makes certain; a lone space at the start adds nothing."""
        if state == self.start and not self._first[token_id]:
            return "", state
        return super().transition(state, token_id)


def _load(model: bytes, path: str | Path) -> "sentencepiece.SentencePieceProcessor":
    try:
        import sentencepiece
    except ImportError:
        raise MissingLibrary("SentencePieceTokenizer", "sentencepiece") from None
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError) as error:
        # A message may quote a piece that is not UTF-8: then the binding fails with ValueError.
        raise CorruptModelFile(path, None, str(error)) from None
    return processor


def _spaced(token: str) -> bytes:
    return token.replace(_SPACE, " ").encode()


def read_flags(model: bytes, path: str | Path) -> ModelFlags:
    """Return the flags of a serialised model; `path` is for errors.

    Raises:
        CorruptModelFile: the message is cut off or not a protobuf; the error has the offset.
        UnsupportedFormat: it has a denormalizer, which rewrites the text across pieces.
    """
    flags = ModelFlags()
    for field, value in _fields(model, 0, len(model), path):
        if field not in (3, 5) or not isinstance(value, range):
            continue
        for inner, setting in _fields(model, value.start, value.stop, path):
            if field == 5 and inner == 2 and setting:
                raise UnsupportedFormat(f"{path} has a denormalizer, which we cannot stream")
            if field == 3 and inner == 3:
                flags = flags._replace(add_dummy_prefix=bool(setting))
            if field == 3 and inner == 4:
                flags = flags._replace(remove_extra_whitespaces=bool(setting))
    return flags


def write_model(
    pieces: Sequence[ModelPiece],
    *,
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool = False,
    unigram: bool = False,
    normalization: bytes = b"",
) -> bytes:
    """Return a serialised model for the library to load.

    Args:
        pieces: the vocabulary.
        add_dummy_prefix: see `ModelFlags`.
        remove_extra_whitespaces: see `ModelFlags`.
        unigram: it is a unigram model, and otherwise a BPE.
        normalization: a compiled table of replacements; empty for none.
    """
    out = bytearray()
    for piece in pieces:
        body = _bytes(1, piece.text.encode()) + _float(2, piece.score) + _number(3, piece.type)
        out += _bytes(1, body)
    byte_fallback = any(piece.type is PieceType.BYTE for piece in pieces)
    out += _bytes(2, _number(3, _UNIGRAM if unigram else _BPE) + _number(35, byte_fallback))
    flags = _number(3, add_dummy_prefix) + _number(4, remove_extra_whitespaces) + _number(5, True)
    out += _bytes(3, _bytes(1, b"identity") + _bytes(2, normalization) + flags)
    return bytes(out)


def _fields(
    data: bytes, start: int, end: int, path: str | Path
) -> Iterator[tuple[int, int | range]]:
    """Yield field numbers and values: a number, or the range of its bytes. Others are skipped."""
    place = start
    while place < end:
        begin = place
        tag, place = _read_varint(data, place, end, path)
        kind = tag & 7
        if kind == _VARINT:
            value, place = _read_varint(data, place, end, path)
            yield tag >> 3, value
            continue
        if kind == _LENGTH:
            size, place = _read_varint(data, place, end, path)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise CorruptModelFile(path, begin, f"a field of the unknown wire type {kind}")
        if size > end - place:
            raise CorruptModelFile(
                path, place, f"a field of {size} bytes, where {end - place} are left"
            )
        if kind == _LENGTH:
            yield tag >> 3, range(place, place + size)
        place += size


def _read_varint(data: bytes, place: int, end: int, path: str | Path) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(data[place : min(end, place + 10)]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, place + number + 1
    missing = "is cut off" if end - place < 10 else "has more than 10 bytes"
    raise CorruptModelFile(path, place, f"a number {missing}")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | _FOUR_BYTES) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH) + _varint(len(value)) + value
