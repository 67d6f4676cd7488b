"""The keys of a GGUF file that make a vocabulary, checked: what a tokenizer is built from.

But: no tokenizer, and no file. See `mini_vllm.tokenizer.backends.gguf_tokenizer`.
"""

import math
import re
from pathlib import Path
from typing import Any

from mini_vllm.tokenizer.backends.sentencepiece_model import PieceType
from mini_vllm.tokenizer.protocols import SpecialTokens
from mini_vllm.tokenizer_errors import CorruptModelFile

_PREFIX = "tokenizer.ggml."
_ROLES = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "pad": "padding_token_id",
    # The format spells it so.
    "sep": "seperator_token_id",
    "cls": "cls_token_id",
    "mask": "mask_token_id",
}
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
# What llama.cpp takes where a `llama` file does not say.
_LLAMA_IDS = {"unk": 0, "bos": 1, "eos": 2}
_BYTE = re.compile("<0x[0-9A-F]{2}>")


class GGUFVocabulary:
    """Tokens, their scores and types, merges, and special ids.

    Args:
        metadata: the keys of the file.
        path: the file, for errors.
        llama: whether it is a `llama` vocabulary, which has defaults for what is not there.

    Attributes:
        tokens: the tokens; the id of each is its place.
        scores: a score for each; 0 where the file has none.
        types: a type for each; guessed where the file has none.
        merges: the merges, the first to be done first.
        roles: the ids of special tokens by role.
        special_tokens: the special tokens by role, and all other control tokens.
        eos_token_ids: the ids that end a generation: end of sequence, of turn, and of message.

    Raises:
        CorruptModelFile: a key has no value of its kind, columns differ in length, a token is there
            twice, or an id is outside the vocabulary.
    """

    def __init__(self, metadata: dict[str, Any], path: Path, *, llama: bool) -> None:
        self._metadata = metadata
        self.path = path
        self.tokens: list[str] = self._column("tokens", str)
        if not self.tokens or len(set(self.tokens)) < len(self.tokens):
            problem = "has a token twice" if self.tokens else "is missing"
            raise self._damaged("tokens", problem)
        self.scores: list[float] = self._column("scores", float, 0.0)
        if any(map(math.isnan, self.scores)):
            raise self._damaged("scores", "has a NaN")
        self.merges = [self._merge(line) for line in self._list("merges", str)]
        stored = self._types()
        self.roles = self._roles(stored, llama=llama)
        self.types = stored or self._guessed_types()
        if llama and "unk" in self.roles and PieceType.UNKNOWN not in self.types:
            self.types[self.roles["unk"]] = PieceType.UNKNOWN
        self.special_tokens = self._special_tokens()
        ends = (self._id(key) for key in _ENDS)
        self.eos_token_ids = frozenset(token_id for token_id in ends if token_id is not None)

    def text(self, key: str) -> str | None:
        """Return the text of a key, or None.

        Raises:
            CorruptModelFile: it is no text.
        """
        value = self._metadata.get(key)
        if value is not None and not isinstance(value, str):
            raise CorruptModelFile(self.path, None, f"{key} is {value!r:.40}, which is no text")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value.

        Raises:
            CorruptModelFile: it is none.
        """
        value = self._metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise self._damaged(key, f"is {value!r:.40}, which is no truth value")
        return value

    def added_ids(self, *, add_bos: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids to put before and after a text; `add_bos` where the file does not say."""
        before = self.flag("add_bos_token", default=add_bos) and "bos" in self.roles
        after = self.flag("add_eos_token", default=False) and "eos" in self.roles
        return (
            (self.roles["bos"],) if before else (),
            (self.roles["eos"],) if after else (),
        )

    def _list(self, key: str, kind: type) -> list[Any]:
        values = self._metadata.get(_PREFIX + key, [])
        if not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise self._damaged(key, f"is no list of {kind.__name__}")
        return values

    def _column(self, key: str, kind: type, missing: Any = None) -> list[Any]:
        values = self._list(key, kind)
        if missing is None:
            return values
        if not values:
            return [missing] * len(self.tokens)
        if len(values) != len(self.tokens):
            raise self._damaged(key, f"has {len(values)} values for {len(self.tokens)} tokens")
        return values

    def _types(self) -> list[PieceType]:
        numbers = self._column("token_type", int, PieceType.NORMAL)
        if not self._metadata.get(_PREFIX + "token_type"):
            return []
        # 0 is "undefined", which means nothing in particular.
        try:
            return [PieceType(number or PieceType.NORMAL) for number in numbers]
        except ValueError as error:
            raise self._damaged("token_type", f"has an unknown type: {error}") from None

    def _guessed_types(self) -> list[PieceType]:
        types = [PieceType.NORMAL] * len(self.tokens)
        as_bytes = [i for i, token in enumerate(self.tokens) if _BYTE.fullmatch(token)]
        for token_id in as_bytes if len(as_bytes) == 256 else ():
            types[token_id] = PieceType.BYTE
        for token_id in self.roles.values():
            types[token_id] = PieceType.CONTROL
        if "unk" in self.roles:
            types[self.roles["unk"]] = PieceType.UNKNOWN
        return types

    def _merge(self, line: str) -> tuple[str, str]:
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise self._damaged("merges", f"has {line[:40]!r}, which is not two tokens")
        return left, right

    def _roles(self, types: list[PieceType], *, llama: bool) -> dict[str, int]:
        roles = {role: self._id(key) for role, key in _ROLES.items()}
        for role, token_id in _LLAMA_IDS.items() if llama else ():
            wanted = PieceType.UNKNOWN if role == "unk" else PieceType.CONTROL
            fits = token_id < len(self.tokens) and (not types or types[token_id] is wanted)
            if roles[role] is None and fits:
                roles[role] = token_id
        return {role: token_id for role, token_id in roles.items() if token_id is not None}

    def _id(self, key: str) -> int | None:
        value = self._metadata.get(_PREFIX + key)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < len(self.tokens):
            raise self._damaged(key, f"is {value!r:.40}; the ids end at {len(self.tokens) - 1}")
        return value

    def _special_tokens(self) -> SpecialTokens:
        named = {role: self.tokens[token_id] for role, token_id in self.roles.items()}
        control = (
            token
            for token, kind in zip(self.tokens, self.types, strict=True)
            if kind is PieceType.CONTROL
        )
        rest = tuple(token for token in control if token not in named.values())
        return SpecialTokens(**named, additional=rest)

    def _damaged(self, key: str, problem: str) -> CorruptModelFile:
        return CorruptModelFile(self.path, None, f"{_PREFIX}{key} {problem}")
