"""Accepts a tokenizer of the `tokenizers` library wherever one of ours is expected."""

from typing import Any

from mini_vllm.tokenizer.pieces import PieceTable
from mini_vllm.tokenizer.protocols import Tokenizer


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
    """Return the table of pieces of any tokenizer that `as_tokenizer` takes."""
    # Every new stream calls this, nearly always with a tokenizer that fits.
    try:
        return tokenizer.pieces  # type: ignore[no-any-return]
    except AttributeError:
        return as_tokenizer(tokenizer).pieces
