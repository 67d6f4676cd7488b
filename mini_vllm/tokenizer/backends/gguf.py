"""The tokenizer inside a GGUF file.

The metadata has the vocabulary of a SentencePiece model (`llama`) or of a byte-level BPE (`gpt2`).
It is checked, then handed to the library that reads the original format, so the ids are that
library's. Other kinds, such as WordPiece (`bert`), unigram (`t5`) and RWKV, are refused, and so is
a `gpt2` vocabulary that names an unknown way to split text, because the ids would be wrong.
"""

import json
import math
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors

from mini_vllm.tokenizer.backends import split_patterns
from mini_vllm.tokenizer.backends.gguf_file import read_gguf_metadata
from mini_vllm.tokenizer.backends.huggingface import HuggingFaceTokenizer
from mini_vllm.tokenizer.backends.sentencepiece import (
    ModelPiece,
    PieceType,
    SentencePieceTokenizer,
    write_model,
)
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.protocols import SpecialTokens
from mini_vllm.tokenizer_errors import (
    ChatTemplateError,
    CorruptModelFile,
    UnsupportedFormat,
)

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
# What llama.cpp assumes where a `llama` file does not say.
_LLAMA_IDS = {"unk": 0, "bos": 1, "eos": 2}
_BYTE = re.compile("<0x[0-9A-F]{2}>")


class _Split(NamedTuple):
    """How a kind of vocabulary cuts text: regexes one after the other.

    Attributes:
        patterns: the regexes.
        whole_words: a word that is a token is taken as it is, and BOS is put in front by default.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False


_DIGITS_FIRST = _Split((r"\p{N}", split_patterns.GPT2))
_LLAMA3 = _Split((split_patterns.LLAMA3,), whole_words=True)
_QWEN2 = _Split((split_patterns.QWEN2,))
_O200K = _Split((split_patterns.O200K,))
# By `tokenizer.ggml.pre`. Source: llama.cpp, whose converter writes these names.
_SPLITS = {
    "default": _Split((r"[\p{P}$+<=>^~|]+", split_patterns.GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "gpt-2": _Split((split_patterns.GPT2,)),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "gpt-4o": _O200K,
    "llama4": _O200K,
    "tekken": _Split((split_patterns.TEKKEN,), whole_words=True),
    "smollm": _DIGITS_FIRST,
    "starcoder": _DIGITS_FIRST,
    "refact": _DIGITS_FIRST,
    "command-r": _DIGITS_FIRST,
}


class GGUFVocabulary:
    """The keys that make a vocabulary, checked: tokens, scores, types, merges, and special ids.

    Args:
        metadata: the keys of the file.
        path: the file, for errors.
        llama: whether it is a `llama` vocabulary, which has defaults for what is missing.

    Attributes:
        tokens: the tokens; the id of each is its position.
        scores: a score for each; 0 where the file has none.
        types: a type for each; guessed where the file has none.
        merges: the merges, in order of priority.
        roles: the ids of special tokens by role.
        special_tokens: the special tokens by role, and all other control tokens.
        eos_token_ids: the ids that end a generation: end of sequence, of turn, and of message.

    Raises:
        CorruptModelFile: a value has the wrong kind, columns differ in length, a token occurs
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
            CorruptModelFile: it is not a text.
        """
        value = self._metadata.get(key)
        if value is not None and not isinstance(value, str):
            raise CorruptModelFile(self.path, None, f"{key} is {value!r:.40}, which is not a text")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a truth value.

        Raises:
            CorruptModelFile: it is not one.
        """
        value = self._metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise self._damaged(key, f"is {value!r:.40}, which is not a truth value")
        return value

    def added_ids(self, *, add_bos: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids to put before and after a text; `add_bos` if the file does not say."""
        before = self.flag("add_bos_token", default=add_bos) and "bos" in self.roles
        after = self.flag("add_eos_token", default=False) and "eos" in self.roles
        return (
            (self.roles["bos"],) if before else (),
            (self.roles["eos"],) if after else (),
        )

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
        # 0 is "undefined", and read as normal.
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


class GGUFTokenizer(VocabularyTokenizer):
    """A GGUF file's vocabulary on top of the tokenizer for its kind.

    Make it with `from_file`.

    Args:
        inner: what encodes and decodes.
        vocabulary: the special tokens by their ids.
        chat_template: the file's template, or None.
    """

    def __init__(
        self,
        inner: VocabularyTokenizer,
        vocabulary: GGUFVocabulary,
        chat_template: str | None = None,
    ) -> None:
        super().__init__(
            {token: token_id for token_id, token in enumerate(vocabulary.tokens)},
            special_tokens=vocabulary.special_tokens,
            eos_token_ids=vocabulary.eos_token_ids,
        )
        self.inner = inner
        if chat_template is not None:
            self._take_chat_template(chat_template)

    @classmethod
    def from_file(cls, path: str | Path) -> "GGUFTokenizer":
        """Read the tokenizer of a GGUF file, and nothing else of it.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            CorruptModelFile: its metadata is damaged or contradicts itself.
            UnsupportedFormat: it has no tokenizer, or one of an unknown kind.
        """
        path = Path(path)
        metadata = read_gguf_metadata(path)
        kind = metadata.get("tokenizer.ggml.model")
        if kind not in ("llama", "gpt2"):
            what = "no tokenizer" if kind is None else f"a tokenizer of the kind {kind!r}"
            raise UnsupportedFormat(f"{path} has {what}", ("llama", "gpt2"))
        vocabulary = GGUFVocabulary(metadata, path, llama=kind == "llama")
        inner = _llama(vocabulary) if kind == "llama" else _gpt2(vocabulary)
        return cls(inner, vocabulary, vocabulary.text("tokenizer.chat_template"))

    @cached_property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None where the text is not a concatenation of pieces."""
        return self.inner.pieces

    @cached_property
    def splits_at_specials(self) -> frozenset[str] | None:
        """The special tokens that always cut a text in two; None for SentencePiece's rules."""
        if not isinstance(self.inner, HuggingFaceTokenizer):
            return None
        return self.inner.splits_at(self.special_tokens.all())

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the encoding of `text`, as the inner tokenizer makes it.

        With special tokens, BOS and EOS are added as the file says. To allow all special tokens is
        llama.cpp's `parse_special`.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        return self.inner.encode(
            text, add_special_tokens=add_special_tokens, allowed_special=allowed_special
        )

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of a whole id sequence, as the inner tokenizer makes it.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        return self.inner.decode(ids, skip_special_tokens=skip_special_tokens)

    def _take_chat_template(self, template: str) -> None:
        try:
            self.chat_template = self.make_chat_template(template)
        except ChatTemplateError as error:
            # The tokenizer is useful without it, but nobody should get another template unawares.
            refusal = f"{{{{ raise_exception({json.dumps(str(error))}) }}}}"
            self.chat_template = self.make_chat_template(refusal)


def _llama(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    columns = (vocabulary.tokens, vocabulary.scores, vocabulary.types)
    model = write_model(
        [ModelPiece(*row) for row in zip(*columns, strict=True)],
        add_dummy_prefix=vocabulary.flag("add_space_prefix", default=True),
    )
    prefix, suffix = vocabulary.added_ids(add_bos=True)
    return SentencePieceTokenizer(model, vocabulary.path, prefix=prefix, suffix=suffix)


def _gpt2(vocabulary: GGUFVocabulary) -> VocabularyTokenizer:
    name = vocabulary.text("tokenizer.ggml.pre") or "default"
    split = _SPLITS.get(name)
    if split is None:
        raise UnsupportedFormat(
            f"{vocabulary.path} splits text the way {name!r} (tokenizer.ggml.pre)", tuple(_SPLITS)
        )
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    try:
        inner = tokenizers.Tokenizer(
            models.BPE(ids, vocabulary.merges, ignore_merges=split.whole_words)
        )
    except Exception as error:
        # The library raises bare Exception, for example for a merge of unknown tokens.
        raise CorruptModelFile(vocabulary.path, None, f"tokenizer.ggml.merges: {error}") from None
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split.patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    inner.decoder = decoders.ByteLevel()
    _add_tokens(inner, vocabulary)
    added = vocabulary.added_ids(add_bos=split.whole_words)
    inner.post_processor = _surrounded(*added, vocabulary.tokens)
    return HuggingFaceTokenizer.from_tokenizer(inner)


def _add_tokens(inner: tokenizers.Tokenizer, vocabulary: GGUFVocabulary) -> None:
    special, plain = [], []
    for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True):
        if kind in (PieceType.CONTROL, PieceType.UNKNOWN):
            special.append(AddedToken(token, special=True, normalized=False))
        elif kind is PieceType.USER_DEFINED:
            plain.append(AddedToken(token, special=False, normalized=False))
    inner.add_special_tokens(special)
    inner.add_tokens(plain)


def _surrounded(prefix: tuple[int, ...], suffix: tuple[int, ...], tokens: list[str]) -> Any:
    # Each gets a name of our own, because some tokens' text would break the template syntax.
    names = {token_id: f"added{token_id}" for token_id in (*prefix, *suffix)}
    return processors.TemplateProcessing(
        single=[*(names[i] for i in prefix), "$A", *(names[i] for i in suffix)],
        special_tokens=[
            {"id": name, "ids": [token_id], "tokens": [tokens[token_id]]}
            for token_id, name in names.items()
        ],
    )
