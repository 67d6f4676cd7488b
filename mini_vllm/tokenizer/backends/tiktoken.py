"""Tokenizers in OpenAI's format, a file of `base64 rank` lines, on the `tiktoken` library.

A rank file has a token's bytes in base64 and its rank, which is its id, on each line; the special
tokens and the split pattern must be known otherwise. The network is never used: a built-in encoding
is read from a folder of rank files. Special tokens inside a text are plain text, unless the caller
allows them.
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from mini_vllm.tokenizer.backends import split_patterns
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import (
    NONE,
    AllowedSpecial,
    At,
    Encoding,
    EncodingKind,
    SpecialFinder,
    encode_between,
    fixed,
    utf8,
)
from mini_vllm.tokenizer.model_map import ModelTokenizerMap
from mini_vllm.tokenizer.pieces import Piece, PieceTable
from mini_vllm.tokenizer.special_tokens import (
    added_tokens_of,
    eos_token_ids_of,
    special_tokens_of,
)
from mini_vllm.tokenizer_errors import (
    CorruptModelFile,
    EncodeError,
    MissingLibrary,
    TokenizerFileNotFound,
    UnknownModel,
    UnknownTokenId,
    UnsupportedFormat,
    checked_file,
    is_library_fault,
)

try:
    import tiktoken
except ImportError:
    raise MissingLibrary("TiktokenTokenizer", "tiktoken") from None

CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"
_SOURCE = "https://openaipublic.blob.core.windows.net/encodings/"
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
# Far beyond any vocabulary; without a limit one damaged rank makes a table of billions of ids.
_MOST_IDS = 1 << 22
_LINE = re.compile(rb"(\S+)[ \t]+(\S+)")
_RANK = re.compile(rb"\d{1,10}")


class _Facts(NamedTuple):
    base_vocab_size: int
    pattern: str
    special_tokens: dict[str, int]
    file: str | None = None


class TiktokenModel(Enum):
    """The built-in encodings; the value is tiktoken's name."""

    CL100K_BASE = "cl100k_base"
    P50K_BASE = "p50k_base"
    P50K_EDIT = "p50k_edit"
    R50K_BASE = "r50k_base"
    O200K_BASE = "o200k_base"
    O200K_HARMONY = "o200k_harmony"

    @property
    def base_vocab_size(self) -> int:
        """The size that is usually quoted; some of them count special tokens.

        The exact number is `vocab_size` of a loaded tokenizer.
        """
        return _FACTS[self].base_vocab_size

    @property
    def pattern(self) -> str:
        """The regex that cuts a text into words."""
        return _FACTS[self].pattern

    @property
    def special_tokens(self) -> dict[str, int]:
        """The ids of the special tokens."""
        return dict(_FACTS[self].special_tokens)

    @property
    def file_name(self) -> str:
        """The name of the file of ranks; two encodings share one."""
        return f"{_FACTS[self].file or self.value}.tiktoken"

    @classmethod
    def from_model_name(cls, name: str) -> "TiktokenModel":
        """Return the encoding of a model such as `gpt-4`, by the model map.

        Raises:
            UnknownModel: it is not a model of OpenAI's.
        """
        names = ModelTokenizerMap.load()
        try:
            return cls(names.resolve(name))
        except ValueError:
            raise UnknownModel(name, names.near(name)) from None


_END = "<|endoftext|>"
_FILL = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_HARMONY = {
    199998: "<|startoftext|>", 199999: _END, 200002: "<|return|>", 200003: "<|constrain|>",
    200005: "<|channel|>", 200006: "<|start|>", 200007: "<|end|>", 200008: "<|message|>",
    200012: "<|call|>", 200018: "<|endofprompt|>",
}  # fmt: skip
_FACTS = {
    TiktokenModel.CL100K_BASE: _Facts(
        100_256,
        split_patterns.CL100K,
        {
            _END: 100257,
            **{token: 100258 + number for number, token in enumerate(_FILL)},
            "<|endofprompt|>": 100276,
        },
    ),
    TiktokenModel.P50K_BASE: _Facts(50_281, split_patterns.GPT2, {_END: 50256}),
    TiktokenModel.P50K_EDIT: _Facts(
        50_281,
        split_patterns.GPT2,
        {_END: 50256, **{token: 50281 + number for number, token in enumerate(_FILL)}},
        "p50k_base",
    ),
    TiktokenModel.R50K_BASE: _Facts(50_257, split_patterns.GPT2, {_END: 50256}),
    TiktokenModel.O200K_BASE: _Facts(
        200_019, split_patterns.O200K, {_END: 199999, "<|endofprompt|>": 200018}
    ),
    TiktokenModel.O200K_HARMONY: _Facts(
        201_088,
        split_patterns.O200K,
        {
            **{f"<|reserved_{i}|>": i for i in range(200000, 201088) if i not in _HARMONY},
            **{token: token_id for token_id, token in _HARMONY.items()},
        },
        "o200k_base",
    ),
}
# The patterns of other files of ranks, by their names. Sources: whisper/tokenizer.py of
# openai-whisper 20250625, tokenization_kimi.py of moonshotai/Kimi-K2-Instruct.
_PATTERNS = {
    **{model.value: facts.pattern for model, facts in _FACTS.items()},
    "gpt2": split_patterns.GPT2,
    "multilingual": split_patterns.GPT2,
    "tiktoken": split_patterns.KIMI,
}


class TiktokenTokenizer(VocabularyTokenizer):
    """A `tiktoken.Encoding` behind our protocols. There is no BOS; nothing is added to a text.

    Every id has bytes (`token_bytes`), but only one whose bytes are UTF-8 has a text
    (`id_to_token`).

    Args:
        encoding: the library's encoding.
        folder: where configuration files may name special tokens, or None.
        plain: the encoding's special tokens that are text, which nobody skips.
    """

    def __init__(
        self,
        encoding: tiktoken.Encoding,
        *,
        folder: Path | None = None,
        plain: Collection[str] = (),
    ) -> None:
        # Its public methods cannot tell a special token from an ordinary one of the same bytes.
        special = encoding._special_tokens
        skipped = [token for token in special if token not in plain]
        self._bytes = {rank: data for data, rank in encoding._mergeable_ranks.items()}
        for token, token_id in special.items():
            self._bytes.setdefault(token_id, token.encode())
        self._by_bytes = {data: token_id for token_id, data in reversed(self._bytes.items())}
        texts = {_text(data): token_id for data, token_id in self._by_bytes.items()}
        super().__init__(
            {text: token_id for text, token_id in texts.items() if text is not None},
            vocab_size=max(self._bytes) + 1,
            special_tokens=special_tokens_of(folder, special, skipped),
            eos_token_ids=eos_token_ids_of(folder) if folder else (),
        )
        self._inner = encoding
        self._special_ids = frozenset(special[token] for token in skipped)

    @classmethod
    def from_encoding(cls, encoding: tiktoken.Encoding) -> "TiktokenTokenizer":
        """Wrap an encoding of the library."""
        return cls(encoding)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> "TiktokenTokenizer":
        """Read a file of ranks. Pattern and special tokens are not in it.

        Args:
            path: the file.
            pattern: the regex that cuts a text into words. By default that of the encoding that
                the file is named after: OpenAI's (`o200k_base.tiktoken`), Whisper's
                (`multilingual.tiktoken`), or Kimi's (`tiktoken.model`).
            special_tokens: ids of special tokens. By default those of the encoding that the file is
                named after and the added tokens of `tokenizer_config.json` beside it, whose roles
                and `generation_config.json` count then, too.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            CorruptModelFile: a line is not `base64 rank` or repeats an earlier one, or a
                configuration file is damaged.
            UnsupportedFormat: there is no `pattern`, and none is known for a file of this name.
            ValueError: `pattern` is not a regex, or the id of a special token is taken.
        """
        path = Path(path)
        ranks = _read_ranks(path)
        pattern = pattern or _PATTERNS.get(path.stem)
        if pattern is None:
            raise UnsupportedFormat(
                f"{path} does not say how it cuts text, and its name is of no known encoding; "
                "call TiktokenTokenizer.from_file(path, pattern=...) with the model's regex",
                tuple(_PATTERNS),
            )
        folder = path.parent if special_tokens is None else None
        added = {} if folder is None else added_tokens_of(folder)
        if special_tokens is None:
            named = next((model for model in TiktokenModel if model.value == path.stem), None)
            special_tokens = named.special_tokens if named else {}
            special_tokens |= {token: row.id for token, row in added.items()}
        taken = set(ranks.values())
        for token, token_id in special_tokens.items():
            if token_id in taken or not 0 <= token_id < _MOST_IDS:
                raise ValueError(
                    f"the special token {token!r} has the id {token_id}; give it a free one"
                )
            taken.add(token_id)
        encoding = tiktoken.Encoding(
            path.stem,
            pat_str=pattern,
            mergeable_ranks=ranks,
            special_tokens=dict(special_tokens),
        )
        plain = [token for token, row in added.items() if not row.special]
        return cls(encoding, folder=folder, plain=plain)

    @classmethod
    def from_model(
        cls, model: TiktokenModel, *, cache_dir: str | Path | None = None
    ) -> "TiktokenTokenizer":
        """Load a built-in encoding from a folder that holds its file of ranks.

        Args:
            model: which.
            cache_dir: the folder; by default the one that TIKTOKEN_CACHE_DIR names. Both
                `cl100k_base.tiktoken` and the name that tiktoken itself gives to it are found.

        Raises:
            TokenizerFileNotFound: the file is missing; the message says where it was sought.
            CorruptModelFile: it is damaged.
        """
        folder = cache_dir or os.environ.get(CACHE_VARIABLE)
        if not folder:
            raise TokenizerFileNotFound(
                f"{model.file_name} (set {CACHE_VARIABLE} to the folder that holds it)"
            )
        wanted = Path(folder) / model.file_name
        # The library's own cache names a file by the hash of the address that it came from.
        address = (_SOURCE + model.file_name).encode()
        cached = wanted.with_name(hashlib.sha1(address, usedforsecurity=False).hexdigest())
        path = next((path for path in (wanted, cached) if path.is_file()), None)
        if path is None:
            raise TokenizerFileNotFound(f"{wanted} (fetch {_SOURCE}{model.file_name} into it)")
        return cls.from_file(path, pattern=model.pattern, special_tokens=model.special_tokens)

    @classmethod
    def from_model_name(
        cls, name: str, *, cache_dir: str | Path | None = None
    ) -> "TiktokenTokenizer":
        """Load the encoding of a model such as `gpt-4`, as `from_model` does.

        Raises:
            UnknownModel: it is not a model of OpenAI's.
            TokenizerFileNotFound: its file is missing.
        """
        return cls.from_model(TiktokenModel.from_model_name(name), cache_dir=cache_dir)

    @cached_property
    def pieces(self) -> PieceTable:
        """The bytes of each id."""
        column: list[Piece] = [self._bytes.get(token_id) for token_id in range(self.vocab_size)]
        return PieceTable(column, column, self._special_ids)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the encoding of `text`.

        Args:
            text: the text.
            add_special_tokens: has no effect; this kind of tokenizer adds nothing.
            allowed_special: the special tokens that count as such inside `text`, "all", or `At`
                certain places. Others are plain text: nobody can type their way out of a message.

        Raises:
            EncodeError: `text` contains a lone surrogate or a byte that the vocabulary lacks, or
                is too much for the library (a run of a million spaces).
        """
        # The library would replace surrogates silently.
        utf8(text)
        allowed = fixed(allowed_special)
        try:
            if isinstance(allowed, At):
                places = SpecialFinder(self._inner.special_tokens_set).places(text, allowed)
                ids = list(encode_between(text, places, self._ids, self._ordinary).ids)
            else:
                ids = self._inner.encode(
                    text,
                    allowed_special=cast(Any, allowed),
                    disallowed_special=(),
                )
        except BaseException as error:
            # An unknown byte makes the library panic.
            if not is_library_fault(error):
                raise
            raise EncodeError(f"{text[:40]!r} cannot be encoded: {error}") from None
        pieces = [self._bytes[token_id] for token_id in ids]
        return Encoding(
            tuple(ids),
            EncodingKind.TIKTOKEN,
            tuple(piece.decode("utf-8", "replace") for piece in pieces),
            _offsets(pieces),
            (False,) * len(ids),
        )

    def _ordinary(self, text: str) -> Encoding:
        return Encoding(tuple(self._inner.encode_ordinary(text)))

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`, one U+FFFD per maximal subpart of ill-formed bytes.

        A skipped special token is transparent: the bytes around it may form one character.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        skipped = self._special_ids if skip_special_tokens else frozenset()
        data = b"".join(self._bytes[i] for i in self.known(ids) if i not in skipped)
        return data.decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of an id.

        Raises:
            UnknownTokenId: it is not in the vocabulary.
        """
        try:
            return self._bytes[token_id]
        except KeyError:
            raise UnknownTokenId(token_id) from None

    def bytes_to_id(self, data: bytes) -> int | None:
        """Return the id of exactly these bytes, or None; the inverse of `token_bytes`."""
        return self._by_bytes.get(data)

    def known(self, ids: Iterable[int]) -> list[int]:
        """Return the ids as a list, including those without text.

        Raises:
            UnknownTokenId: an id is outside the vocabulary.
        """
        ids = list(ids)
        for token_id in ids:
            if token_id not in self._bytes:
                raise UnknownTokenId(token_id)
        return ids


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _offsets(pieces: Iterable[bytes]) -> tuple[tuple[int, int], ...]:
    """Return the span of characters that each piece touches."""
    offsets = []
    begun = 0
    for piece in pieces:
        inside = piece[:1] in _CONTINUATION_BYTES
        start = begun - 1 if inside else begun
        begun += len(piece.translate(None, _CONTINUATION_BYTES))
        offsets.append((start, begun))
    return tuple(offsets)


def _read_ranks(path: Path) -> dict[bytes, int]:
    """Return the ranks of a file by their bytes. Empty lines are skipped.

    Raises:
        TokenizerFileNotFound: the file does not exist.
        UnsupportedFormat: it is far too large.
        CorruptModelFile: a line is not a token in base64 and a rank, or repeats an earlier one; the
            error has the offset of the line, and its message the number.
    """
    checked_file(path)
    ranks: dict[bytes, int] = {}
    taken: set[int] = set()
    offset = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if line.strip():
            try:
                token, rank = _read_line(line.strip())
                if token in ranks or rank in taken:
                    raise ValueError(f"the token {token!r} or the rank {rank} occurs twice")
            except ValueError as error:
                raise CorruptModelFile(path, offset, f"line {number}: {error}") from None
            ranks[token] = rank
            taken.add(rank)
        offset += len(line)
    if not ranks:
        raise CorruptModelFile(path, 0, "no line of it has a rank")
    return ranks


def _read_line(line: bytes) -> tuple[bytes, int]:
    fields = _LINE.fullmatch(line)
    if fields is None:
        raise ValueError(f"{line[:40]!r} is not two fields, the token in base64 and its rank")
    try:
        # Whisper's files end with the empty token, which they write as mere padding.
        token = b"" if fields[1] == b"=" else base64.b64decode(fields[1], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{fields[1][:40]!r} is not base64: {error}") from None
    if not _RANK.fullmatch(fields[2]) or int(fields[2]) >= _MOST_IDS:
        raise ValueError(f"the rank {fields[2][:40]!r} is not a number from 0 to {_MOST_IDS - 1}")
    return token, int(fields[2])
