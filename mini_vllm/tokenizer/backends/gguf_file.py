"""The metadata of a GGUF file: keys and values, among them the whole tokenizer.

The file is the magic `GGUF`, a version, the counts of tensors and of keys, then the keys with their
values. All numbers are little-endian. Every count is compared with the size of the file before
anything is allocated, so that a damaged count costs nothing. The tensors, which follow the keys,
are never read.
"""

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

from mini_vllm.tokenizer_errors import CorruptModelFile, TokenizerFileNotFound

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
# By type number, as the struct module names them.
_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_BOOL, _STRING, _ARRAY = 7, 8, 9
_SMALLEST = {_STRING: 8, _ARRAY: 12}
_SMALLEST_KEY = 13
# The most bytes of a value: far beyond any vocabulary.
_MOST_BYTES = 1 << 29
_DEEPEST = 8


def read_gguf_metadata(path: str | Path) -> dict[str, Any]:
    """Return the metadata of a GGUF file of version 2 or 3.

    Numbers are int or float, texts are str, and arrays are lists.

    Raises:
        TokenizerFileNotFound: the file does not exist.
        CorruptModelFile: the file is not a GGUF file of these versions, or is big-endian, cut off
            or damaged; the error has the offset, and its message names the missing item.
    """
    path = Path(path)
    if not path.is_file():
        raise TokenizerFileNotFound(path)
    with path.open("rb", buffering=1 << 20) as file:
        return _Reader(file, path).metadata()


class _Reader:
    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._left = os.fstat(file.fileno()).st_size
        self._offset = 0

    def metadata(self) -> dict[str, Any]:
        magic = self._take(4, "the magic")
        if magic != _MAGIC:
            raise self._damaged(0, f"begins with {magic!r}, not with {_MAGIC!r}")
        version = self._number("I", "the version")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            if swapped in (1, *_VERSIONS):
                raise self._damaged(4, f"big-endian GGUF version {swapped}; convert it")
            raise self._damaged(4, f"GGUF version {version}; versions 2 and 3 can be read")
        self._number("Q", "the number of tensors")
        count = self._count(_SMALLEST_KEY, "keys")
        values: dict[str, Any] = {}
        for number in range(count):
            start = self._offset
            key = self._string(f"key {number + 1} of {count}")
            if key in values:
                raise self._damaged(start, f"the key {key!r} is there twice")
            kind = self._number("I", f"the type of {key!r}")
            values[key] = self._value(kind, key, 0)
        return values

    def _value(self, kind: int, key: str, depth: int) -> Any:
        if kind in _NUMBERS:
            return self._numbers(kind, 1, key)[0]
        if kind == _STRING:
            return self._string(repr(key))
        if kind != _ARRAY:
            raise self._damaged(self._offset - 4, f"{key!r} has the unknown type {kind}")
        if depth == _DEEPEST:
            raise self._damaged(self._offset - 4, f"{key!r} has arrays more than {_DEEPEST} deep")
        return self._array(key, depth)

    def _array(self, key: str, depth: int) -> list[Any]:
        kind = self._number("I", f"the element type of {key!r}")
        if kind not in _NUMBERS and kind not in _SMALLEST:
            raise self._damaged(self._offset - 4, f"{key!r} has the unknown element type {kind}")
        code = _NUMBERS.get(kind)
        size = struct.calcsize(code) if code else _SMALLEST[kind]
        count = self._count(size, f"elements of {key!r}")
        if code:
            return self._numbers(kind, count, key)
        if kind == _STRING:
            return self._strings(count, key)
        return [self._value(kind, key, depth + 1) for _ in range(count)]

    def _numbers(self, kind: int, count: int, key: str) -> list[Any]:
        start = self._offset
        layout = f"<{count}{_NUMBERS[kind]}"
        data = self._take(struct.calcsize(layout), f"the value of {key!r}")
        if kind == _BOOL and data.strip(b"\0\1"):
            raise self._damaged(start, f"{key!r} has a truth value that is neither 0 nor 1")
        return list(struct.unpack(layout, data))

    def _strings(self, count: int, key: str) -> list[str]:
        what = f"the elements of {key!r}"
        return [self._string(what) for _ in range(count)]

    def _string(self, what: str) -> str:
        size = self._number("Q", what)
        data = self._take(size, what)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            start = self._offset - size + error.start
            raise self._damaged(start, f"{what} is not UTF-8") from None

    def _count(self, smallest: int, what: str) -> int:
        start = self._offset
        count = self._number("Q", f"the number of {what}")
        if count * smallest > self._left:
            raise self._damaged(
                start, f"{count} {what} need more than the {self._left} bytes that are left"
            )
        return count

    def _number(self, code: str, what: str) -> int:
        data = self._take(8 if code == "Q" else 4, what)
        return int.from_bytes(data, "little")

    def _take(self, size: int, what: str) -> bytes:
        if _MOST_BYTES < size <= self._left:
            raise self._damaged(self._offset, f"{what} has {size:,} bytes, far too many")
        # The second comparison is for a file that shrinks while it is read.
        data = self._file.read(size) if size <= self._left else b""
        if len(data) < size:
            raise self._damaged(
                self._offset, f"the file ends in {what}: {size} bytes wanted, {self._left} left"
            )
        self._offset += size
        self._left -= size
        return data

    def _damaged(self, offset: int, detail: str) -> CorruptModelFile:
        return CorruptModelFile(self._path, offset, detail)
