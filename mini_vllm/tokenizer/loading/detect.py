"""Detects the kind of a tokenizer file by its first bytes, since names can mislead.

The rest of the file is checked when it is read.
"""

import re
from collections.abc import Iterable
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from mini_vllm.tokenizer_errors import TokenizerFileNotFound, UnsupportedFormat

_HEAD = 512
_BOM = b"\xef\xbb\xbf"
_RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?(\n|$)")


class TokenizerType(Enum):
    """The kinds of tokenizer files; the value is the name in metrics."""

    HUGGINGFACE = "huggingface"
    TIKTOKEN = "tiktoken"
    SENTENCEPIECE = "sentencepiece"
    GGUF = "gguf"


SUPPORTED = (
    "tokenizer.json (Hugging Face)",
    "vocab.json with merges.txt (GPT-2)",
    "*.tiktoken ranks",
    "*.model (SentencePiece)",
    "*.gguf",
)


def detect_type(head: bytes, name: str) -> TokenizerType:
    """Return the kind of a file.

    Args:
        head: the first bytes of the file; 512 are enough.
        name: the name of the file in the error.

    Raises:
        UnsupportedFormat: the file is of a kind that we cannot read.
    """
    if is_json(head):
        return TokenizerType.HUGGINGFACE
    if head.startswith(b"GGUF"):
        return TokenizerType.GGUF
    if _RANK_LINE.match(head.lstrip(b"\r\n")):
        return TokenizerType.TIKTOKEN
    if is_sentencepiece(head):
        return TokenizerType.SENTENCEPIECE
    if head.startswith(b"version https://git-lfs"):
        raise UnsupportedFormat(f"{name} is a pointer of Git LFS; run: git lfs pull", SUPPORTED)
    what = "is empty" if not head else f"begins with {head[:8]!r}, like no tokenizer format"
    raise UnsupportedFormat(f"{name} {what}", SUPPORTED)


def is_json(head: bytes) -> bool:
    """Return whether a JSON object or array begins here, after a BOM and white space."""
    return head.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[")


def is_sentencepiece(head: bytes) -> bool:
    """Return whether a SentencePiece model begins here.

    Its first field is the message of the first piece, whose first field is the piece's text.
    """
    if head[:1] != b"\x0a":
        return False
    place = 1
    while place < len(head) and place < 6 and head[place] >= 0x80:
        place += 1
    inner = head[place + 1 :]
    return inner[:1] == b"\x0a" and len(inner) > 2 and inner[1] <= len(inner)


def get_tokenizer_info(path: str | Path) -> TokenizerType:
    """Return the kind of the tokenizer in a file or folder.

    Raises:
        TokenizerFileNotFound: the file or folder does not exist.
        UnsupportedFormat: the file is of a kind that we cannot read, or the folder has several
            candidates.
    """
    path = Path(path)
    if path.is_dir():
        path = find_tokenizer_file(path)
    if not path.is_file():
        raise TokenizerFileNotFound(path)
    with path.open("rb") as file:
        return detect_type(file.read(_HEAD), str(path))


_PAIR = ["merges.txt", "vocab.json"]
_LAYOUTS = (
    ("tokenizer.json",),
    ("vocab.json",),
    ("*.tiktoken", "tiktoken.model"),
    ("*.model",),
    ("*.gguf",),
)


def find_tokenizer_file(folder: Path) -> Path:
    """Return the file that holds the tokenizer of a model's folder.

    The first of these counts: `tokenizer.json`, `vocab.json` with `merges.txt`, tiktoken ranks,
    a SentencePiece model, a GGUF file.

    Raises:
        UnsupportedFormat: the folder has no such file, or several files of the kind that counts.
    """
    files = files_that_count(path.name for path in folder.iterdir())
    if not files:
        raise UnsupportedFormat(f"{folder} holds no tokenizer", SUPPORTED)
    if len(files) > 1 and files != _PAIR:
        raise UnsupportedFormat(
            f"{folder} has {' and '.join(files)}; give the path of the one to use"
        )
    return folder / files[-1]


def files_that_count(names: Iterable[str]) -> list[str]:
    """Return the files that may hold the tokenizer: all of the first kind that counts, sorted.

    `vocab.json` is returned together with `merges.txt`, and does not count without it.
    """
    names = set(names)
    for patterns in _LAYOUTS:
        files = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
        if "vocab.json" in files:
            files = names.intersection(_PAIR)
            if len(files) < len(_PAIR):
                continue
        if files:
            return sorted(files)
    return []
