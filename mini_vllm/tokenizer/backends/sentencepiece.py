"""Tokenizers in SentencePiece's format, `.model` files, on the `sentencepiece` library.

The pieces of a text are its bytes but for the start: the library drops a leading space there that
it put in front when it encoded. Control tokens, `<s>` and the like, have no text for the library;
here they are special tokens, shown unless they are skipped, and a shown one is text like other.

But:
- On ill-formed bytes the text is byte-exact, one U+FFFD per maximal subpart. The library has one
  per byte.
- Control tokens inside a text are plain text. A user-defined piece inside a text is that piece:
  it is part of the model's language.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

try:
    import sentencepiece
except ImportError:
    raise ImportError(
        "SentencePieceTokenizer needs the sentencepiece package: "
        "pip install 'mini-vllm-labs[tokenizers]'"
    ) from None

from mini_vllm.tokenizer.backends.sentencepiece_model import read_flags
from mini_vllm.tokenizer.backends.vocabulary import VocabularyTokenizer
from mini_vllm.tokenizer.encoding import Encoding, EncodingKind, utf8
from mini_vllm.tokenizer.pieces import Piece, PieceTable, State, StreamTable
from mini_vllm.tokenizer.protocols import SpecialTokens
from mini_vllm.tokenizer_errors import CorruptModelFile, TokenizerFileNotFound

_SPACE = "▁"
Span = tuple[int, int]


class SentencePieceTokenizer(VocabularyTokenizer):
    """A `SentencePieceProcessor` behind our protocols.

    Make it with `from_file`.

    Args:
        model: the serialised model.
        path: where it is from, for errors.
        prefix: ids that `add_special_tokens` puts in front; by default BOS, if there is one.
        suffix: ids that it puts at the end.
    """

    def __init__(
        self,
        model: bytes,
        path: str | Path,
        *,
        prefix: Sequence[int] | None = None,
        suffix: Sequence[int] = (),
    ) -> None:
        self._flags = read_flags(model, path)
        self._inner = inner = _load(model, path)
        try:
            tokens = [inner.id_to_piece(token_id) for token_id in range(inner.vocab_size())]
        except UnicodeDecodeError as error:
            raise CorruptModelFile(path, None, f"a piece is not UTF-8: {error}") from None
        self._control = [i for i in range(len(tokens)) if inner.is_control(i)]
        roles = {
            role: tokens[token_id]
            for role in ("bos", "eos", "unk", "pad")
            if (token_id := getattr(inner, f"{role}_id")()) >= 0
        }
        rest = tuple(tokens[i] for i in self._control if tokens[i] not in roles.values())
        super().__init__(
            {token: token_id for token_id, token in enumerate(tokens)},
            special_tokens=SpecialTokens(**roles, additional=rest),
        )
        bos = inner.bos_id()
        self._prefix = (bos,) * (bos >= 0) if prefix is None else tuple(prefix)
        self._suffix = tuple(suffix)

    @classmethod
    def from_file(cls, path: str | Path) -> "SentencePieceTokenizer":
        """Read a `.model` file.

        Raises:
            TokenizerFileNotFound: there is no such file.
            CorruptModelFile: it is no model, or a damaged one.
            UnsupportedFormat: it rewrites its text in a way that cannot be streamed.
        """
        path = Path(path)
        if not path.is_file():
            raise TokenizerFileNotFound(path)
        return cls(path.read_bytes(), path)

    @cached_property
    def pieces(self) -> PieceTable:
        """The bytes of each id, anywhere and at the start of a text."""
        special = frozenset(self._control)
        rest: list[Piece] = []
        first: list[Piece] = []
        for token_id in range(self.vocab_size):
            token = self._tokens[token_id]
            if token_id in special:
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

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Encoding:
        """Return the encoding of `text`; special tokens in it are plain text.

        Offsets are spans of `text` as it was, also where the model normalises it.

        Raises:
            EncodeError: `text` holds a lone surrogate.
        """
        utf8(text)
        found = self._inner.encode(text, return_type="offset_mapping")
        prefix, suffix = (self._prefix, self._suffix) if add_special_tokens else ((), ())
        ids = (*prefix, *found["ids"], *suffix)
        return Encoding(
            ids,
            EncodingKind.SP,
            tuple(self._tokens[token_id] for token_id in ids),
            (
                *[(0, 0)] * len(prefix),
                *self._whole_characters(found["ids"], found["offsets"]),
                *[(0, 0)] * len(suffix),
            ),
            (
                *[True] * len(prefix),
                *[False] * len(found["ids"]),
                *[True] * len(suffix),
            ),
        )

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of `ids`: what a stream of them gives.

        A skipped special token is transparent: the bytes around it may form one character.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        table = self.pieces.skipping if skip_special_tokens else self.pieces.showing
        return table.text(self.known(ids))

    def _whole_characters(self, ids: list[int], offsets: list[Span]) -> list[Span]:
        """Give every byte of a split character its span; the library gives it to the last only."""
        spans = list(offsets)
        for place in range(len(ids) - 2, -1, -1):
            start, end = spans[place]
            following = spans[place + 1]
            if start == end == following[0] and self._inner.is_byte(ids[place]):
                spans[place] = following
        return spans


class StrippedStartTable(StreamTable):
    """Models that remove extra spaces: each piece loses a leading one while there is no text."""

    def state_after(self, prompt: Sequence[int]) -> State:
        """Return the state after the ids of a prompt, of which it looks at no more than it must."""
        known = (i for i in prompt if 0 <= i < len(self._first))
        return super().state_after(prompt) if any(self._first[i] for i in known) else self.start

    def transition(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the text that an id makes certain; nothing but a space is nothing at the start."""
        if state == self.start and not self._first[token_id]:
            return "", state
        return super().transition(state, token_id)


def _load(model: bytes, path: str | Path) -> sentencepiece.SentencePieceProcessor:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError) as error:
        # A message may quote a piece that is no UTF-8: then the binding fails with ValueError.
        raise CorruptModelFile(path, None, str(error)) from None
    return processor


def _spaced(token: str) -> bytes:
    return token.replace(_SPACE, " ").encode()
