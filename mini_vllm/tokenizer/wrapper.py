"""A tokenizer around another tokenizer: the base of `CachedTokenizer` and `MeteredTokenizer`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from mini_vllm.tokenizer.adapter import as_tokenizer
from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding
from mini_vllm.tokenizer.loading.files import create_tokenizer_from_file
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.protocols import SpecialTokens, Tokenizer, metrics_of
from mini_vllm.tokenizer.streams.factory import AnyDecodeStream, create_decode_stream


class TokenizerWrapper:
    """Passes everything on to `inner`, including a chat template, which only some tokenizers have.

    Attributes:
        inner: the tokenizer.
        metrics: the instruments that count the tokenizer and its streams, or None.
    """

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = as_tokenizer(inner)
        self.metrics = metrics_of(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.inner, name)

    @classmethod
    def from_file(cls, path: str | Path, *arguments: Any) -> Self:
        """Return the tokenizer of a file or a model's folder, wrapped.

        Args:
            path: a path that `create_tokenizer_from_file` reads.
            arguments: further arguments of the class, such as a `CacheConfig`.

        Raises:
            TokenizerError: as `create_tokenizer_from_file`.
        """
        return cls.from_file_with_chat_template(path, None, *arguments)

    @classmethod
    def from_file_with_chat_template(
        cls, path: str | Path, chat_template_path: str | Path | None, *arguments: Any
    ) -> Self:
        """Do the same with the chat template of a file; None means the model's own.

        Raises:
            TokenizerError: as `create_tokenizer_from_file`.
        """
        inner = create_tokenizer_from_file(path, chat_template_path=chat_template_path)
        return cls(inner, *arguments)

    @property
    def vocab_size(self) -> int:
        """The highest id plus one, added tokens included."""
        return self.inner.vocab_size

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens by role."""
        return self.inner.special_tokens

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The ids that end a generation."""
        return self.inner.eos_token_ids

    @property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None if the text is not a concatenation of pieces."""
        return self.inner.pieces

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the inner tokenizer's encoding of `text`.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        return self.inner.encode(
            text, add_special_tokens=add_special_tokens, allowed_special=allowed_special
        )

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> list[Encoding]:
        """Return the inner tokenizer's encodings of the texts, in their order.

        Raises:
            EncodeError: a text cannot be encoded; the error has the index of the text.
        """
        return self.inner.encode_batch(
            texts, add_special_tokens=add_special_tokens, allowed_special=allowed_special
        )

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the inner tokenizer's text of a whole id sequence.

        Raises:
            UnknownTokenId: an id is not in the vocabulary.
        """
        return self.inner.decode(ids, skip_special_tokens=skip_special_tokens)

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token's text, or None."""
        return self.inner.token_to_id(token)

    def id_to_token(self, token_id: int) -> str | None:
        """Return the text of an id as the vocabulary spells it, or None."""
        return self.inner.id_to_token(token_id)

    def decode_stream(
        self, prompt_token_ids: Sequence[int] = (), *, skip_special_tokens: bool = True
    ) -> AnyDecodeStream:
        """Return a stream for the output of a prompt."""
        return create_decode_stream(self, prompt_token_ids, skip_special_tokens=skip_special_tokens)
