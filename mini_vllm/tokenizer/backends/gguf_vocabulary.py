"""The keys of a GGUF file that make a vocabulary, checked."""

import math
import re
from pathlib import Path
from typing import Any

from mini_vllm.tokenizer.backends.sentencepiece_model import PieceType
from mini_vllm.tokenizer.protocols import SpecialTokens
from mini_vllm.tokenizer.special_tokens import ending_tokens
from mini_vllm.tokenizer_errors import CorruptModelFile

_PREFIX = "tokenizer.ggml."
_ROLES = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "pad": "padding_token_id",
    # This is how the format spells it.
    "sep": "seperator_token_id",
    "cls": "cls_token_id",
    "mask": "mask_token_id",
}
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
# llama.cpp assumes these ids if a file of this kind names none, and the token has the right type.
_DEFAULT_IDS = {
    "llama": {"unk": 0, "bos": 1, "eos": 2},
    "t5": {"pad": 0, "eos": 1, "unk": 2},
    "bert": {"pad": 0, "unk": 100, "bos": 101, "sep": 102, "mask": 103},
}
# A piece of these kinds is UNKNOWN exactly once.
_SENTENCEPIECE = ("llama", "t5")
_MARKER = re.compile(r"[<\[].+[>\]]")
_BYTE = re.compile("<0x[0-9A-F]{2}>")


class GGUFVocabulary:
    """The keys that make a vocabulary, checked: tokens, scores, types, merges, and special ids.

    Args:
        metadata: the keys of the file.
        path: the file, for errors.
        kind: the kind of the tokenizer; some kinds have default ids for missing keys.

    Attributes:
        tokens: the tokens; the id of each token is its position.
        scores: a score for each token; 0 if the file has none.
        types: a type for each token; guessed if the file has none.
        merges: the merges, in order of priority.
        roles: the ids of special tokens by role.
        special_tokens: the special tokens by role, and all other control and unknown tokens.
        eos_token_ids: the ids that end a generation: end of sequence, of turn, and of message, and
            tokens that are known to end one, whatever their type.

    Raises:
        CorruptModelFile: a value has the wrong kind, columns differ in length, a token occurs
            twice, or an id is outside the vocabulary.
    """

    def __init__(self, metadata: dict[str, Any], path: Path, kind: str) -> None:
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
        self.roles = self._roles(stored, _DEFAULT_IDS.get(kind, {}))
        self.types = stored or self._guessed_types()
        if kind in _SENTENCEPIECE:
            self._name_one_unknown()
        self.eos_token_ids = self._eos_token_ids()
        self._mark_control()
        self.special_tokens = self._special_tokens()

    def text(self, key: str) -> str | None:
        """Return the text of a key, or None.

        Raises:
            CorruptModelFile: the value is not a text.
        """
        value = self._metadata.get(key)
        if value is not None and not isinstance(value, str):
            raise CorruptModelFile(self.path, None, f"{key} is {value!r:.40}, which is not a text")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value.

        Raises:
            CorruptModelFile: the value is not a truth value.
        """
        value = self._metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise self._damaged(key, f"is {value!r:.40}, which is not a truth value")
        return value

    def bytes_of(self, key: str) -> bytes:
        """Return the bytes in an array of numbers; no bytes if it is missing.

        Raises:
            CorruptModelFile: the value is not an array of 8-bit numbers.
        """
        values = self._list(key, int)
        if not all(-128 <= value < 256 for value in values):
            raise self._damaged(key, "is not a list of bytes")
        return bytes(value & 0xFF for value in values)

    def stripping(self) -> dict[str, frozenset[str]]:
        """Return the special tokens that absorb white space, by `lstrip` and `rstrip`.

        A file does not list these tokens. llama.cpp recognises the models by their names.
        """
        name = (self.text("general.name") or "").lower()
        architecture = self.text("general.architecture") or ""
        left, right = set[str](), set[str]()
        if any(model in name for model in ("phi-3", "phi3")):
            right = {*self.special_tokens.all(), "</s>"} - {"<unk>", "<s>", "<|endoftext|>"}
        elif "modern-bert" in name:
            left = {"[MASK]"}
        elif any(model in architecture for model in ("nomic-bert-moe", "jina-bert-v3")):
            left = {"<mask>"}
        return {"lstrip": frozenset(left), "rstrip": frozenset(right)}

    def added_ids(
        self, *, add_bos: bool = False, add_eos: bool = False, add_sep: bool = False
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids to put before and after a text.

        The arguments decide which ids are added if the file does not say. If there is no BOS token,
        CLS replaces it.
        """
        start = "bos" if "bos" in self.roles else "cls"
        sides = (
            ((start, "add_bos_token", add_bos),),
            (("eos", "add_eos_token", add_eos), ("sep", "add_sep_token", add_sep)),
        )
        before, after = (
            tuple(
                self.roles[role]
                for role, key, default in roles
                if self.flag(key, default=default) and role in self.roles
            )
            for roles in sides
        )
        return before, after

    def _list(self, key: str, kind: type) -> list[Any]:
        values = self._metadata.get(_PREFIX + key, [])
        if not isinstance(values, list) or not all(type(value) is kind for value in values):
            raise self._damaged(key, f"is not a list of {kind.__name__}")
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
        # 0 means "undefined", and is read as normal.
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

    def _name_one_unknown(self) -> None:
        """Keep one token of the type UNKNOWN: the token of the role, or else the first."""
        unknown_ids = [i for i, kind in enumerate(self.types) if kind is PieceType.UNKNOWN]
        unknown = self.roles.get("unk", unknown_ids[0] if unknown_ids else None)
        # llama.cpp treats every other such token as special, and so do we: Phi-3 has 53.
        for token_id in unknown_ids:
            self.types[token_id] = PieceType.CONTROL
        if unknown is not None:
            self.types[unknown] = PieceType.UNKNOWN

    def _mark_control(self) -> None:
        """Make the tokens that begin or end a text control tokens, if they look like markers.

        Some files give them another type: Aquila's, and Gemma 4's `<|tool_response>`.
        """
        begin = {self.roles[role] for role in ("bos", "eos") if role in self.roles}
        for token_id in begin | self.eos_token_ids:
            marker = _MARKER.search(self.tokens[token_id])
            if marker and self.types[token_id] in (PieceType.NORMAL, PieceType.USER_DEFINED):
                self.types[token_id] = PieceType.CONTROL

    def _merge(self, line: str) -> tuple[str, str]:
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise self._damaged("merges", f"has {line[:40]!r}, which is not two tokens")
        return left, right

    def _roles(self, types: list[PieceType], defaults: dict[str, int]) -> dict[str, int]:
        roles = {role: self._id(key) for role, key in _ROLES.items()}
        for role, token_id in defaults.items():
            special = (PieceType.UNKNOWN, PieceType.CONTROL)
            fits = token_id < len(self.tokens) and (not types or types[token_id] in special)
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
            if kind in (PieceType.CONTROL, PieceType.UNKNOWN)
        )
        rest = tuple(token for token in control if token not in named.values())
        return SpecialTokens(**named, additional=rest)

    def _eos_token_ids(self) -> frozenset[int]:
        named = [token_id for key in _ENDS if (token_id := self._id(key)) is not None]
        ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        return frozenset([*named, *(ids[token] for token in ending_tokens(ids))])

    def _damaged(self, key: str, problem: str) -> CorruptModelFile:
        return CorruptModelFile(self.path, None, f"{_PREFIX}{key} {problem}")
