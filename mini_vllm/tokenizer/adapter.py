"""Accepts a tokenizer of the `tokenizers` library wherever one of ours is expected.

The streams also accept any object that decodes ids as the tokenizers of transformers do.
"""

from collections.abc import Iterable
from typing import Any

from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.protocols import Decoder, Tokenizer
from mini_vllm.tokenizer_errors import DecodeError


def as_tokenizer(tokenizer: Any) -> Tokenizer:
    """Return a tokenizer that fits the protocol: a `tokenizers.Tokenizer` is wrapped.

    An object is wrapped once, for as long as it is among the last few that were wrapped. Tokens
    that are added to the object later are not seen.
    """
    fitting: Tokenizer = tokenizer
    if type(tokenizer).__module__.partition(".")[0] == "tokenizers":
        # Imported here, because the backend needs a library of its own.
        from mini_vllm.tokenizer.backends.huggingface import wrapped

        fitting = wrapped(tokenizer)
    return fitting


def pieces_of(tokenizer: Any) -> PieceTable | None:
    """Return the table of pieces of any tokenizer that `as_tokenizer` takes; else None."""
    # Every new stream calls this, nearly always with a tokenizer that fits.
    try:
        return tokenizer.pieces  # type: ignore[no-any-return]
    except AttributeError:
        return getattr(as_tokenizer(tokenizer), "pieces", None)


def as_decoder(tokenizer: Any) -> Decoder:
    """Return a tokenizer that fits the protocol, or a decoder around a foreign object.

    Raises:
        TypeError: the object has no `decode(ids, skip_special_tokens=...)` that returns a text.
    """
    fitting = as_tokenizer(tokenizer)
    return fitting if hasattr(fitting, "pieces") else _ForeignDecoder(tokenizer)


class _ForeignDecoder:
    """The decoder of a foreign tokenizer. Ids for which it raises any exception are unknown."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        kind = f"{type(tokenizer).__module__}.{type(tokenizer).__qualname__}"
        try:
            text = tokenizer.decode([], skip_special_tokens=True)
        except (AttributeError, TypeError) as error:
            raise TypeError(
                f"the tokenizer is a {kind}, which has no decode(ids, skip_special_tokens=...): "
                f"{error}; make one with create_tokenizer"
            ) from None
        except Exception:
            # Some decode no empty list; they accept the arguments all the same.
            text = ""
        if not isinstance(text, str):
            raise TypeError(
                f"the tokenizer is a {kind}, whose decode returns {type(text).__name__}, not str"
            )

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        try:
            text: str = self._tokenizer.decode([*ids], skip_special_tokens=skip_special_tokens)
        except Exception as error:
            raise DecodeError(f"{type(error).__name__}: {error}") from error
        return text
