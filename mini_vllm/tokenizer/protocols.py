"""The protocols of a tokenizer, and of its two halves: encoder and decoder."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial, Encoding
from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer_errors import EncodeError

if TYPE_CHECKING:
    from mini_vllm.tokenizer.metrics import TokenizerMetrics


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The text of a vocabulary's special tokens by role; None for a role without one."""

    bos: str | None = None
    eos: str | None = None
    unk: str | None = None
    sep: str | None = None
    pad: str | None = None
    cls: str | None = None
    mask: str | None = None
    additional: tuple[str, ...] = ()

    def all(self) -> tuple[str, ...]:
        """Return every special token once, the named roles first."""
        roles = (self.bos, self.eos, self.unk, self.sep, self.pad, self.cls, self.mask)
        return tuple(dict.fromkeys(token for token in (*roles, *self.additional) if token))


@runtime_checkable
class Encoder(Protocol):
    """Text to ids."""

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> Encoding:
        """Return the encoding of `text`; without special tokens, that of `""` is empty.

        Args:
            text: the text.
            add_special_tokens: add the special tokens that the model expects around a text, such as
                BOS.
            allowed_special: which special tokens in `text` count as special: a set of their texts,
                "all", or `At` certain places. The others are plain text. Tokens that the vocabulary
                does not declare special, often `<think>` for example, always count: they are words
                of the model's language.

        Raises:
            EncodeError: the text cannot be encoded.
        """
        ...

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> list[Encoding]:
        """Return the encodings of the texts, in their order; by default they are made one by one.

        Raises:
            EncodeError: a text cannot be encoded; the error has the index of the text.
        """
        encodings = []
        for index, text in enumerate(texts):
            try:
                encoding = self.encode(
                    text, add_special_tokens=add_special_tokens, allowed_special=allowed_special
                )
            except EncodeError as error:
                raise EncodeError(error.detail, index) from None
            encodings.append(encoding)
        return encodings


@runtime_checkable
class Decoder(Protocol):
    """Ids to text."""

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of a whole id sequence; `""` for an empty one.

        Raises:
            UnknownTokenId: an id is not in the vocabulary (byte and mock tokenizers skip it).
        """
        ...


@runtime_checkable
class Tokenizer(Encoder, Decoder, Protocol):
    """Both halves and the vocabulary. Instances are immutable, so threads may share them."""

    @property
    def vocab_size(self) -> int:
        """The highest id plus one, added tokens included."""
        ...

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens by role."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The ids that end a generation."""
        ...

    @property
    def pieces(self) -> PieceTable | None:
        """The bytes of each id, or None if the text is not a concatenation of pieces."""
        ...

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token's text, special tokens included, or None."""
        ...

    def id_to_token(self, token_id: int) -> str | None:
        """Return the text of an id as the vocabulary spells it, or None if it has none."""
        ...


def metrics_of(tokenizer: Any) -> "TokenizerMetrics | None":
    """Return the instruments of a metered tokenizer, or of a wrapper around it; else None."""
    metrics: TokenizerMetrics | None = getattr(tokenizer, "metrics", None)
    return metrics
