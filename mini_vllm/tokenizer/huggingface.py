"""Tokenizers in Hugging Face's `tokenizer.json` format, on the `tokenizers` library."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import tokenizers

from mini_vllm.tokenizer.encoding import Encoding, EncodingKind, encode_each
from mini_vllm.tokenizer.errors import (
    CorruptModelFile,
    EncodeError,
    TokenizerFileNotFound,
    UnknownTokenId,
)
from mini_vllm.tokenizer.huggingface_pieces import huggingface_pieces
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.protocols import SpecialTokens

# Names that vocabularies give to these roles, where no configuration says it.
_CANDIDATES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "[BOS]"),
    "eos": ("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "[EOS]"),
    "unk": ("<unk>", "[UNK]"),
    "sep": ("[SEP]", "<sep>"),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]", "<cls>"),
    "mask": ("[MASK]", "<mask>"),
}


class HuggingFaceTokenizer:
    """A `tokenizers.Tokenizer` behind our protocols.

    Make it with `from_file` or `from_tokenizer`.
    """

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        self._ids: dict[str, int] = inner.get_vocab(with_added_tokens=True)
        self._tokens = {token_id: token for token, token_id in self._ids.items()}

    @classmethod
    def from_file(cls, path: str | Path) -> "HuggingFaceTokenizer":
        """Read a `tokenizer.json`.

        Raises:
            TokenizerFileNotFound: there is no such file.
            CorruptModelFile: it is no tokenizer.
        """
        path = Path(path)
        if not path.is_file():
            raise TokenizerFileNotFound(path)
        try:
            return cls(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8-sig")))
        except UnicodeDecodeError as error:
            raise CorruptModelFile(path, error.start, "not UTF-8") from None
        except Exception as error:
            # The library raises bare Exception for everything that it cannot parse.
            raise CorruptModelFile(path, None, str(error)) from None

    @classmethod
    def from_tokenizer(cls, inner: tokenizers.Tokenizer) -> "HuggingFaceTokenizer":
        """Wrap a tokenizer object."""
        return cls(inner)

    @property
    def vocab_size(self) -> int:
        """The highest id plus one, added tokens included."""
        return max(self._tokens, default=-1) + 1

    @cached_property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens; roles by their usual names."""
        special = [t.content for t in self._inner.get_added_tokens_decoder().values() if t.special]
        roles = {
            role: next((name for name in names if name in self._ids), None)
            for role, names in _CANDIDATES.items()
        }
        rest = tuple(token for token in special if token not in roles.values())
        return SpecialTokens(**roles, additional=rest)

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The ids that end a generation."""
        eos = self.special_tokens.eos
        return frozenset() if eos is None else frozenset([self._ids[eos]])

    @cached_property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None where the decoder is no concatenation of pieces."""
        return huggingface_pieces(self._inner)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Encoding:
        """Return the encoding of `text`.

        Raises:
            EncodeError: `text` holds a lone surrogate.
        """
        try:
            encoding = self._inner.encode(text, add_special_tokens=add_special_tokens)
        except (UnicodeEncodeError, TypeError) as error:
            raise EncodeError(f"{text!r:.60} cannot be encoded: {error}") from None
        return Encoding(
            tuple(encoding.ids),
            EncodingKind.HF,
            tuple(encoding.tokens),
            tuple(encoding.offsets),
            tuple(map(bool, encoding.special_tokens_mask)),
        )

    def encode_batch(
        self, texts: Iterable[str], *, add_special_tokens: bool = False
    ) -> list[Encoding]:
        """Return the encodings of the texts, in their order.

        Raises:
            EncodeError: one of them holds a lone surrogate; it has the index.
        """
        return encode_each(
            lambda text: self.encode(text, add_special_tokens=add_special_tokens), texts
        )

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the library's own decoding of a whole sequence.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        ids = list(ids)
        for token_id in ids:
            if token_id not in self._tokens:
                raise UnknownTokenId(token_id)
        return self._inner.decode(ids, skip_special_tokens=skip_special_tokens)

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, added ones included, or None."""
        return self._ids.get(token)

    def id_to_token(self, token_id: int) -> str | None:
        """Return the token of an id as the vocabulary spells it, or None."""
        return self._tokens.get(token_id)
