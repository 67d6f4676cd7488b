"""A tokenizer as data for the labs: the spelling of its tokens, and the rule to read them."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.tokenizer import Tokenizer
from mini_vllm.tokenizer.backends.huggingface_pieces import BYTE_OF, byte_fallback, byte_level
from mini_vllm.tokenizer.pieces import Piece, PieceTable

_RULES = {"byte_level": byte_level, "byte_fallback": byte_fallback}
_SPELLED = {byte: char for char, byte in BYTE_OF.items()}
_SAMPLE = "aé€🚀"


def is_bytes(tokenizer: Tokenizer) -> bool:
    """Return whether the ids of a tokenizer are the bytes of its text."""
    return list(tokenizer.encode(_SAMPLE).ids) == list(_SAMPLE.encode())


def facts_of(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the facts of a tokenizer, by the names of `[serves.arguments]`.

    The tokens of a tokenizer with neither of the two spellings are respelled in the first, byte for
    byte.

    Raises:
        ValueError: its text is not the bytes of its tokens, one by one.
    """
    pieces = tokenizer.pieces
    if pieces is None or not pieces.concatenates:
        raise ValueError(
            "the labs need a tokenizer in which each id has its bytes; the decoder of this one "
            "rewrites across ids. Name another --tokenizer"
        )
    spelled = [tokenizer.id_to_token(token_id) for token_id in range(len(pieces.rest))]
    kind = next((kind for kind in _RULES if _reads(kind, spelled, pieces)), None)
    if kind is None:
        spelled = [
            _respelled(piece, special=token_id in pieces.special)
            for token_id, piece in enumerate(pieces.rest)
        ]
    return {
        "tokenizer": tokenizer,
        "vocabulary": spelled,
        "kind": kind or "byte_level",
        "special": pieces.special,
        "strip_first_space": pieces.first is not pieces.rest,
    }


def bytes_of(tokenizer: Tokenizer, token_id: int) -> bytes:
    """Return the bytes of an id; a special id has none."""
    pieces = tokenizer.pieces
    assert pieces is not None
    known: Sequence[Piece] = pieces.rest
    if token_id in pieces.special or not 0 <= token_id < len(known):
        return b""
    return known[token_id] or b""


def _reads(kind: str, spelled: list[str | None], pieces: PieceTable) -> bool:
    """Return whether a rule finds the bytes of every token that is not special."""
    rule = _RULES[kind]
    return all(
        token_id in pieces.special or (None if token is None else rule(token)) == piece
        for token_id, (token, piece) in enumerate(zip(spelled, pieces.rest, strict=True))
    )


def _respelled(piece: bytes | None, *, special: bool) -> str | None:
    """Return bytes in GPT-2's characters; a special token is its text."""
    if piece is None:
        return None
    return piece.decode() if special else "".join(_SPELLED[byte] for byte in piece)
