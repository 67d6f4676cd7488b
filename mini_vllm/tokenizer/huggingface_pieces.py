"""The table of pieces of a Hugging Face tokenizer, from its decoder chain and its vocabulary.

Known chains: byte-level (GPT-2, Llama 3, Qwen), byte fallback with and without a stripped space
(Llama 2, Mistral, Gemma), Metaspace, WordPiece, and no decoder at all.
"""

import json
from collections.abc import Callable
from typing import Any

import tokenizers

from mini_vllm.tokenizer.pieces import Piece, PieceTable


def huggingface_pieces(
    tokenizer: tokenizers.Tokenizer, *, map_added_tokens: bool = False
) -> PieceTable | None:
    """Return the table of a Hugging Face tokenizer, or None where its decoder has none.

    Args:
        tokenizer: the tokenizer; its decoder chain decides the rule.
        map_added_tokens: run added tokens through the byte map of byte-level decoders, as Hugging
            Face's `decode` does (`đem` becomes U+0011 and `em`). By default they are text.
    """
    rules = _rules(json.loads(tokenizer.to_str())["decoder"])
    if rules is None:
        return None
    first, rest, maps_bytes = rules
    added = tokenizer.get_added_tokens_decoder()
    size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def column(rule: Callable[[str], bytes]) -> list[Piece]:
        pieces: list[Piece] = []
        for token_id in range(size):
            token = tokenizer.id_to_token(token_id)
            if token is None:
                pieces.append(None)
            elif token_id in added and maps_bytes and not map_added_tokens:
                pieces.append(token.encode())
            else:
                pieces.append(rule(token))
        return pieces

    rest_column = column(rest)
    first_column = rest_column if first is rest else column(first)
    special = frozenset(token_id for token_id, token in added.items() if token.special)
    return PieceTable(rest_column, first_column, special)


_Rule = Callable[[str], bytes]


def _rules(decoder: dict[str, Any] | None) -> tuple[_Rule, _Rule, bool] | None:
    """Return the rules of the first and of other tokens, and whether they map bytes."""
    if decoder is None:
        return str.encode, lambda token: b" " + token.encode(), False
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _byte_level, _byte_level, True
    if kinds == ["Metaspace"]:
        return _metaspace(steps[0])
    if kinds == ["WordPiece"]:
        return _word_piece(steps[0])
    if kinds[:3] == ["Replace", "ByteFallback", "Fuse"] and _is_space_rule(steps[0]):
        if kinds[3:] == []:
            return _byte_fallback, _byte_fallback, False
        if steps[3:] == [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]:
            return (lambda token: _byte_fallback(token).removeprefix(b" ")), _byte_fallback, False
    return None


def _byte_level_map() -> dict[str, int]:
    """Return GPT-2's 256 characters and the bytes they stand for: printable ones themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + number): byte for number, byte in enumerate(others)}
    return {**{chr(byte): byte for byte in printable}, **shifted}


_BYTE_OF = _byte_level_map()


def _byte_level(token: str) -> bytes:
    try:
        return bytes([_BYTE_OF[char] for char in token])
    except KeyError:
        # One character outside the map makes the whole token raw text.
        return token.encode()


def _is_space_rule(step: dict[str, Any]) -> bool:
    return bool(step["pattern"] == {"String": "▁"} and step["content"] == " ")


def _byte_fallback(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            pass
    return token.replace("▁", " ").encode()


def _metaspace(step: dict[str, Any]) -> tuple[_Rule, _Rule, bool]:
    mark = step["replacement"]

    def rest(token: str) -> bytes:
        return token.replace(mark, " ").encode()

    if step["prepend_scheme"] == "never":
        return rest, rest, False
    return (lambda token: token.replace(mark, "").encode()), rest, False


def _word_piece(step: dict[str, Any]) -> tuple[_Rule, _Rule, bool]:
    prefix = step["prefix"]
    cleanup = _clean_up if step["cleanup"] else lambda text: text

    def rest(token: str) -> bytes:
        joined = token.removeprefix(prefix) if token.startswith(prefix) else " " + token
        return cleanup(joined).encode()

    return (lambda token: cleanup(token).encode()), rest, False


_CLEAN_UP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


def _clean_up(text: str) -> str:
    for before, after in _CLEAN_UP:
        text = text.replace(before, after)
    return text
