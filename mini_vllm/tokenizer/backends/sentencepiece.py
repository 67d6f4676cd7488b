"""Tokenizers in SentencePiece's format, `.model` files, on the `sentencepiece` library.

The pieces of a text are its bytes, except at the start: there the library drops the leading space
that it added when it encoded. For the library, control tokens such as `<s>` have no text; here they
are special tokens, shown as text unless they are skipped.

The library itself is imported when the first model is loaded. In a model's folder the configuration
files count as in transformers' slow tokenizers: they add tokens, mark tokens as special, name
roles, and decide whether BOS and EOS are added.

But:
- For ill-formed bytes the text is byte-exact, with one U+FFFD per maximal subpart; the library's
  text has one per byte.
- Control tokens written in a text are plain text, unless they are allowed. Then the text between
  them is encoded piece by piece. If the model adds a space in front of a text, each piece gets this
  space, as in llama.cpp and mistral-common. With `"legacy": false` in a configuration, only text at
  the start gets it.
- User-defined pieces and added tokens always count, unless a configuration marks them as special:
  they are part of the model's language.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mini_vllm.tokenizer.backends.sentencepiece_model import (
    read_flags,
    with_control,
    without_dummy_prefix,
)
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import (
    NONE,
    AllowedSpecial,
    Encoding,
    EncodingKind,
    SpecialFinder,
    encode_between,
    joined,
    utf8,
)
from mini_vllm.tokenizer.pieces import Piece, PieceTable, State, StreamTable
from mini_vllm.tokenizer.special_tokens import (
    added_tokens_of,
    eos_token_ids_of,
    read_json_object,
    special_names_of,
    special_tokens_of,
)
from mini_vllm.tokenizer_errors import (
    CorruptModelFile,
    MissingLibrary,
    checked_file,
)

if TYPE_CHECKING:
    import sentencepiece

_SPACE = "▁"

Span = tuple[int, int]


class SentencePieceTokenizer(VocabularyTokenizer):
    """A `SentencePieceProcessor` with our protocols.

    Make it with `from_file`.

    Args:
        model: the serialised model.
        path: the path of the model, for errors.
        prefix: ids that `add_special_tokens` puts in front; by default BOS, if there is one.
        suffix: ids that `add_special_tokens` puts at the end.
        lstrip: special tokens that absorb the white space before them.
        rstrip: special tokens that absorb the white space after them.
        cutting: user-defined pieces that cut a text in parts, as special tokens do.
        folder: the folder of the configuration files, or None.
    """

    def __init__(
        self,
        model: bytes,
        path: str | Path,
        *,
        prefix: Sequence[int] | None = None,
        suffix: Sequence[int] = (),
        lstrip: frozenset[str] = frozenset(),
        rstrip: frozenset[str] = frozenset(),
        cutting: Iterable[str] = (),
        folder: Path | None = None,
    ) -> None:
        config = read_json_object(folder / "tokenizer_config.json") if folder else {}
        added = added_tokens_of(folder) if folder else {}
        model = with_control(model, special_names_of(folder) if folder else (), path)
        self._flags = read_flags(model, path)
        self._inner = inner = _load(model, path)
        try:
            tokens = [inner.id_to_piece(token_id) for token_id in range(inner.vocab_size())]
        except UnicodeDecodeError as error:
            raise CorruptModelFile(path, None, f"a piece is not UTF-8: {error}") from None
        self._own = range(len(tokens))
        by_id = dict(enumerate(tokens)) | {row.id: token for token, row in added.items()}
        control = [i for i in self._own if inner.is_control(i)]
        ids = {token: token_id for token_id, token in by_id.items()}
        super().__init__(
            ids,
            vocab_size=max(by_id) + 1,
            special_tokens=special_tokens_of(
                folder,
                ids,
                [by_id[i] for i in control] + [t for t, row in added.items() if row.special],
                _roles(inner),
            ),
            eos_token_ids=eos_token_ids_of(folder) if folder else (),
        )
        # A piece may have the text of an added token.
        self._tokens = by_id
        special = self.special_tokens
        named = (ids[token] for token in special.all() if token != special.unk)
        self._special = frozenset(control).union(named)
        bos = () if special.bos is None else (ids[special.bos],)
        eos = () if special.eos is None else (ids[special.eos],)
        self._prefix = bos * bool(config.get("add_bos_token", True))
        self._suffix = eos * bool(config.get("add_eos_token"))
        if prefix is not None:
            self._prefix, self._suffix = tuple(prefix), tuple(suffix)
        lstrip |= {token for token, row in added.items() if row.lstrip}
        rstrip |= {token for token, row in added.items() if row.rstrip}
        self._finder = SpecialFinder(special.all(), lstrip=lstrip, rstrip=rstrip)
        plain = [token for token in (*added, *cutting) if ids[token] not in self._special]
        self._plain = SpecialFinder(plain, lstrip=lstrip, rstrip=rstrip)
        self._behind = inner
        if self._flags.add_dummy_prefix and config.get("legacy") is False:
            self._behind = _load(without_dummy_prefix(model), path)

    @classmethod
    def from_file(cls, path: str | Path) -> "SentencePieceTokenizer":
        """Read a `.model` file, and the configuration files beside it.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            CorruptModelFile: the file is damaged or not a model, or a configuration file is
                damaged.
            UnsupportedFormat: the model rewrites text in a way that cannot be streamed, or the file
                is far too large.
        """
        path = checked_file(path)
        return cls(path.read_bytes(), path, folder=path.parent)

    @cached_property
    def pieces(self) -> PieceTable:
        """The bytes of each id, anywhere and at the start of a text."""
        special = self._special
        added = special | {token_id for token_id in self._tokens if token_id not in self._own}
        rest: list[Piece] = []
        first: list[Piece] = []
        for token_id in range(self.vocab_size):
            token = self._tokens.get(token_id)
            if token is None:
                rest.append(None)
            elif token_id in added:
                rest.append(token.encode())
            elif self._inner.is_byte(token_id):
                rest.append(bytes([int(token[3:5], 16)]))
            elif self._inner.is_unknown(token_id):
                rest.append(self._inner.decode([token_id]).encode())
            else:
                rest.append(_spaced(token))
                first.append(_spaced(token.removeprefix(_SPACE)))
                continue
            first.append(rest[-1])
        if self._flags.remove_extra_whitespaces:
            return PieceTable(rest, first, special, StrippedStartTable)
        return PieceTable(rest, first if self._flags.add_dummy_prefix else rest, special)

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the encoding of `text`; special tokens in it are plain text unless allowed.

        Offsets are spans of the original `text`, even if the model normalises it.

        Raises:
            EncodeError: `text` contains a lone surrogate.
        """
        utf8(text)
        places = self._finder.places(text, allowed_special)
        behind = partial(self._between, inner=self._behind)
        encoding = encode_between(text, places, self._ids, self._between, EncodingKind.SP, behind)
        if not add_special_tokens:
            return encoding
        return joined([self._added(self._prefix), (0, encoding), self._added(self._suffix)])

    def _between(self, text: str, inner: Any = None) -> Encoding:
        """Return the encoding of a text without special tokens, by a processor for its start."""
        places = self._plain.places(text, "all")
        start = partial(self._pieces_of, inner or self._inner)
        behind = partial(self._pieces_of, self._behind)
        return encode_between(text, places, self._ids, start, EncodingKind.SP, behind)

    def _pieces_of(self, inner: Any, text: str) -> Encoding:
        mapping = inner.encode(text, return_type="offset_mapping")
        ids = tuple(mapping["ids"])
        return Encoding(
            ids,
            EncodingKind.SP,
            tuple(self._tokens[token_id] for token_id in ids),
            tuple(self._whole_characters(ids, mapping["offsets"])),
            (False,) * len(ids),
        )

    def _added(self, ids: tuple[int, ...]) -> tuple[int, Encoding]:
        tokens = tuple(self._tokens[token_id] for token_id in ids)
        size = len(ids)
        return 0, Encoding(ids, EncodingKind.SP, tokens, ((0, 0),) * size, (True,) * size)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`, the same as a stream's.

        A skipped special token is transparent: the bytes around it may form one character.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        table = self.pieces.skipping if skip_special_tokens else self.pieces.showing
        return table.text(self.known(ids))

    def _whole_characters(self, ids: Sequence[int], offsets: list[Span]) -> list[Span]:
        """Give the span of a split character to all of its bytes, not only to the last byte."""
        spans = list(offsets)
        for place in range(len(ids) - 2, -1, -1):
            start, end = spans[place]
            following = spans[place + 1]
            if start == end == following[0] and self._inner.is_byte(ids[place]):
                spans[place] = following
        return spans


class StrippedStartTable(StreamTable):
    """Models that remove extra spaces: a piece loses a leading space while the text is empty."""

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the state after the ids of a prompt."""
        known = (i for i in prompt if 0 <= i < len(self._first))
        return super().state_after(prompt) if any(self._first[i] for i in known) else self.start

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the text that an id makes certain; a lone space at the start adds nothing."""
        if state == self.start and not self._first[token_id]:
            return "", state
        return super().transition(state, token_id)


def _load(model: bytes, path: str | Path) -> "sentencepiece.SentencePieceProcessor":
    try:
        import sentencepiece
    except ImportError:
        raise MissingLibrary("SentencePieceTokenizer", "sentencepiece") from None
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError) as error:
        # A message may quote a piece that is not UTF-8: then the binding fails with ValueError.
        raise CorruptModelFile(path, None, str(error)) from None
    return processor


def _roles(inner: "sentencepiece.SentencePieceProcessor") -> dict[str, str | None]:
    """Return the tokens that a model names by role, None for a role without a token."""
    ids = {role: getattr(inner, f"{role}_id")() for role in ("bos", "eos", "unk", "pad")}
    return {role: inner.id_to_piece(i) if i >= 0 else None for role, i in ids.items()}


def _spaced(token: str) -> bytes:
    return token.replace(_SPACE, " ").encode()
