"""The reader of rank files: lines of a token's bytes in base64 and its rank, which is its id.

But: no special tokens and no split pattern; the format has neither.
"""

import base64
import binascii
import re
from pathlib import Path

from mini_vllm.tokenizer_errors import CorruptModelFile, TokenizerFileNotFound

# No vocabulary is near it; without a limit one damaged rank makes a table of billions of ids.
MOST_IDS = 1 << 22
_LINE = re.compile(rb"(\S+)[ \t]+(\S+)")
_RANK = re.compile(rb"\d{1,10}")


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the ranks of a file by their bytes. Empty lines count for nothing.

    Raises:
        TokenizerFileNotFound: there is no such file.
        CorruptModelFile: a line has no two fields, is no base64 or no rank, or repeats an earlier
            one; it has the offset of the line, and its number in the text.
    """
    if not path.is_file():
        raise TokenizerFileNotFound(path)
    ranks: dict[bytes, int] = {}
    taken: set[int] = set()
    offset = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if line.strip():
            try:
                token, rank = _read_line(line.strip())
                if token in ranks or rank in taken:
                    raise ValueError(f"the token {token!r} or the rank {rank} is there twice")
            except ValueError as error:
                raise CorruptModelFile(path, offset, f"line {number}: {error}") from None
            ranks[token] = rank
            taken.add(rank)
        offset += len(line)
    if not ranks:
        raise CorruptModelFile(path, 0, "no line of it holds a rank")
    return ranks


def _read_line(line: bytes) -> tuple[bytes, int]:
    fields = _LINE.fullmatch(line)
    if fields is None:
        raise ValueError(f"{line[:40]!r} is not two fields, the token in base64 and its rank")
    try:
        token = base64.b64decode(fields[1], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{fields[1][:40]!r} is not base64: {error}") from None
    if not _RANK.fullmatch(fields[2]) or int(fields[2]) >= MOST_IDS:
        raise ValueError(f"the rank {fields[2][:40]!r} is no number from 0 to {MOST_IDS - 1}")
    return token, int(fields[2])
