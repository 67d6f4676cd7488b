"""SentencePiece's own file: the parts of its protobuf message that the library does not return.

The library does not report where a file is cut off, either. The message, by field number: 1 a piece
(1 text, 2 score, 3 type), 2 the trainer's settings, 3 the normalizer's settings, 5 the
denormalizer's settings.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from mini_vllm.tokenizer_errors import CorruptModelFile, UnsupportedFormat

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_UNIGRAM, _BPE = 1, 2


class PieceType(IntEnum):
    """The type of a piece, in the numbers that GGUF also uses."""

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
    """The settings that `decode` depends on, in addition to the pieces.

    Attributes:
        add_dummy_prefix: whether a text gets a space in front before it is encoded.
        remove_extra_whitespaces: whether a text is stripped, and each run of spaces becomes a
            single space.
    """

    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True


def read_flags(model: bytes, path: str | Path) -> ModelFlags:
    """Return the flags of a serialised model; `path` is for errors.

    Raises:
        CorruptModelFile: the message is cut off or not a protobuf; the error has the offset.
        UnsupportedFormat: the model has a denormalizer, which rewrites the text across pieces.
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
        unigram: whether the model is a unigram model; otherwise it is a BPE.
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


def without_dummy_prefix(model: bytes) -> bytes:
    """Return a serialised model that puts no space in front of a text."""
    # If a message occurs twice, a reader merges both occurrences.
    return model + _bytes(3, _number(3, False))


def with_control(model: bytes, texts: Collection[str], path: str | Path) -> bytes:
    """Return a serialised model in which user-defined pieces of these texts are control tokens.

    In the library user-defined pieces count wherever they are in a text, and control tokens
    nowhere. `path` is for errors.
    """
    out = bytearray(model)
    old, new = (_number(3, kind) for kind in (PieceType.USER_DEFINED, PieceType.CONTROL))
    for field, piece in _fields(model, 0, len(model), path) if texts else ():
        # The type is the last field of a piece.
        if field != 1 or not isinstance(piece, range) or model[piece.stop - 2 : piece.stop] != old:
            continue
        for inner, text in _fields(model, piece.start, piece.stop, path):
            value = model[text.start : text.stop] if isinstance(text, range) else b""
            if inner == 1 and value.decode("utf-8", "replace") in texts:
                out[piece.stop - 2 : piece.stop] = new
    return bytes(out)


def _fields(
    data: bytes, start: int, end: int, path: str | Path
) -> Iterator[tuple[int, int | range]]:
    """Yield field numbers and values: a number, or a range of bytes. Skip other wire types."""
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
