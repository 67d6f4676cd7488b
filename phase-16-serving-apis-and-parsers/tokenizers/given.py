"""What labs 06 to 08 are given: tokenizers to decode with, by name, and what is in their files.

`byte_level` and `byte_fallback` are those beside this file. `own` is the `tokenizer.json` to which
the environment variable LAB_TOKENIZER leads, in runs on your own machine.

A lab's code is handed what is made here and imports none of it. Where the `tokenizers` library is
installed it decodes; elsewhere `Reader` does, which gives the same.
"""

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import groupby
from typing import Any

try:
    from tokenizers import Tokenizer as Library
except ImportError:
    Library = None

# The files that `[given]` in lab.toml names, by name: labkit puts them here before this runs.
FILES: dict[str, bytes] = globals().get("FILES", {})
NAMES = [name.removesuffix(".json") for name in FILES if name.endswith(".json")]
"""The tokenizers that there are."""

_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTE_OF = {chr(byte): byte for byte in _PRINTABLE}
_BYTE_OF |= {chr(256 + place): byte for place, byte in enumerate(_OTHERS)}


class Reader:
    """A `tokenizer.json` that can only be decoded, without any library.

    Args:
        data: the file.

    Attributes:
        vocabulary: the token of each id as the file spells it, None where there is none.
        special: the ids of special tokens.
        kind: `byte_level` or `byte_fallback`.
        strips: how many spaces `decode` takes away at the start of a text, at most.

    Raises:
        ValueError: it is no such file, or of another kind.
    """

    def __init__(self, data: bytes) -> None:
        try:
            told = json.loads(data)
            entries = told["model"]["vocab"]
            words = dict(enumerate(word for word, _ in entries)) if type(entries) is list else {
                number: word for word, number in entries.items()
            }  # fmt: skip
            words |= {row["id"]: row["content"] for row in told["added_tokens"]}
            decoder = told["decoder"] or {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no tokenizer.json: {error!r}") from None
        steps = {step["type"]: step for step in decoder.get("decoders", [decoder]) if step}
        if "ByteLevel" not in steps and "ByteFallback" not in steps:
            known = "neither byte-level nor with byte fallback"
            raise ValueError(f"this tokenizer.json is {known}: its decoder is {[*steps]}")
        self.kind = "byte_level" if "ByteLevel" in steps else "byte_fallback"
        self.vocabulary = [words.get(number) for number in range(max(words, default=-1) + 1)]
        self.special = frozenset(row["id"] for row in told["added_tokens"] if row["special"])
        self.strips = steps.get("Strip", {}).get("start", 0)
        spell = _byte_level if self.kind == "byte_level" else _with_fallback
        # What each token is: bytes, or text between bytes.
        self._pieces = [None if word is None else spell(word) for word in self.vocabulary]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids, special tokens included; unknown ids have none."""
        size, pieces = len(self._pieces), self._pieces
        known = [piece for id in ids if 0 <= id < size and (piece := pieces[id])]
        if self.kind == "byte_level":
            return b"".join(known).decode("utf-8", "replace")
        text = ""
        for is_text, run in groupby(known, lambda piece: type(piece) is str):
            parts = [*run]
            text += "".join(parts) if is_text else _run(b"".join(parts))
        return text[min(self.strips, len(text) - len(text.lstrip(" "))) :]

    def id_to_token(self, id: int) -> str | None:
        """Return a token as the file spells it; None if there is none of that id."""
        return self.vocabulary[id] if 0 <= id < len(self.vocabulary) else None

    def bytes_of(self, id: int) -> bytes:
        """Return the bytes that a token stands for, in the middle of a text."""
        piece = self._pieces[id] if 0 <= id < len(self._pieces) else None
        return piece.encode() if isinstance(piece, str) else piece or b""

    @cached_property
    def ids_of(self) -> dict[bytes, list[int]]:
        """The ids of the tokens that are not special, by the bytes that they stand for."""
        found: dict[bytes, list[int]] = {}
        for id in range(len(self.vocabulary)):
            if id not in self.special and (data := self.bytes_of(id)):
                found.setdefault(data, []).append(id)
        return found

    def spell(self, text: str, draw: random.Random, longest: int = 8) -> list[int]:
        """Return ids that stand for a text: wherever there is a choice, it is drawn.

        So characters come whole and in pieces, alone and with parts of their neighbours. In front
        of the text stands the space that `decode` takes away at the start.
        """
        data, ids, place = b" " * self.strips + text.encode(), [], 0
        while place < len(data):
            ends = range(place + 1, min(len(data), place + longest) + 1)
            choices = [end for end in ends if data[place:end] in self.ids_of]
            end = draw.choice(choices)
            ids.append(draw.choice(self.ids_of[data[place:end]]))
            place = end
        return ids


class Tokenizer:
    """A tokenizer as a streaming detokenizer is given it: it can decode.

    Attributes:
        decoded: how many ids it has been asked to decode so far.
    """

    def __init__(self, name: str) -> None:
        self._reader = reader(name)
        self._library = _library(name)
        self.decoded = 0

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids: special tokens are kept, and no spaces are cleaned up.

        An id that is not in the vocabulary has no text.
        """
        ids = [*ids]
        self.decoded += len(ids)
        if self._library is None:
            return self._reader.decode(ids)
        size = len(self._reader.vocabulary)
        known = [id for id in ids if 0 <= id < size]
        text: str = self._library.decode(known, skip_special_tokens=False)
        return text

    def id_to_token(self, id: int) -> str | None:
        """Return a token as the vocabulary spells it; None if there is none of that id."""
        return self._reader.id_to_token(id)


def tokenizer(name: str) -> Tokenizer:
    """Return a tokenizer with a count of its own.

    Raises:
        ValueError: there is none of that name, or its file is no `tokenizer.json`.
    """
    return Tokenizer(name)


@cache
def reader(name: str) -> Reader:
    """Return what is in the file of a tokenizer; for tests, which need more than `decode`.

    Raises:
        ValueError: as `tokenizer` does.
    """
    if name not in NAMES:
        raise ValueError(f"there is no tokenizer {name!r}; there are {', '.join(NAMES)}")
    try:
        return Reader(FILES[f"{name}.json"])
    except ValueError as error:
        raise ValueError(f"{name}.json cannot be used: {error}") from None


def check_file(file: str) -> None:
    """Read one of `FILES`.

    Raises:
        ValueError: it is no `tokenizer.json`, or of another kind.
    """
    Reader(FILES[file])


def vocabulary(name: str) -> list[str | None]:
    """Return the token of each id as the file spells it, None where there is none; a new list."""
    return [*reader(name).vocabulary]


@cache
def _library(name: str) -> Any:
    return None if Library is None else Library.from_buffer(FILES[f"{name}.json"])


def _byte_level(token: str) -> bytes:
    """Return the bytes of a token in GPT-2's spelling; an added token may be spelled plainly."""
    spelled = [_BYTE_OF.get(character, -1) for character in token]
    return token.encode() if -1 in spelled else bytes(spelled)


def _with_fallback(token: str) -> bytes | str:
    """Return the byte of a token such as `<0xE4>`, the text of another one."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        with suppress(ValueError):
            return bytes.fromhex(token[3:5])
    return token.replace("▁", " ")


def _run(data: bytes) -> str:
    """Return the text of byte tokens in a row: U+FFFD for each if they are not UTF-8 together."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "\ufffd" * len(data)
