"""The table of pieces of a Hugging Face tokenizer, from its decoder chain and its vocabulary.

Known chains: byte-level (GPT-2, Llama 3, Qwen), byte fallback with and without a stripped space
(Llama 2, Mistral, Gemma) or before Metaspace, Metaspace, WordPiece, BPE with an end-of-word suffix,
CTC, and no decoder at all.
"""

import functools
import itertools
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mini_vllm.tokenizer.pieces import (
    OwedSpaceTable,
    Piece,
    PieceTable,
    RepeatTable,
    StreamTable,
)
from mini_vllm.tokenizer_errors import is_library_fault

if TYPE_CHECKING:
    import tokenizers

_SAMPLE = "naïve café — Привет مرحبا नमस्ते สวัสดี 你好 こんにちは 안녕 🚀🫨 🇫🇷\n"


def huggingface_pieces(
    tokenizer: "tokenizers.Tokenizer",
    tokens: Sequence[str | None],
    *,
    map_added_tokens: bool = False,
) -> PieceTable | None:
    """Return the table of a Hugging Face tokenizer.

    It is None if the tokenizer's decoder has no table, or if the table that we make disagrees with
    the tokenizer's own `decode`.

    Args:
        tokenizer: the tokenizer; its decoder chain decides the rule.
        tokens: the vocabulary: the token of each id, or None, added tokens included.
        map_added_tokens: run added tokens through the byte map of byte-level decoders, as Hugging
            Face's `decode` does (`đem` becomes U+0011 and `em`). By default they are text.
    """
    rules = _rules(_state(tokenizer.decoder))
    if rules is None:
        return None
    added = tokenizer.get_added_tokens_decoder()

    def column(rule: Callable[[str], bytes]) -> list[Piece]:
        return [None if token is None else rule(token) for token in tokens]

    rest = column(rules.rest)
    first = rest if rules.first is rules.rest else column(rules.first)
    special = frozenset(token_id for token_id, token in added.items() if token.special)
    table = PieceTable(rest, first, special, rules.make)

    def decode(ids: list[int], skip: bool) -> str:
        # By its names the library would not skip a special token that is normalised.
        shown = [token_id for token_id in ids if not (skip and token_id in special)]
        return tokenizer.decode(shown, skip_special_tokens=False)

    if not table.agrees_with(decode, _samples(tokenizer)):
        return None
    if not rules.maps_bytes or map_added_tokens:
        return table
    rest = list(rest)
    for token_id, token in added.items():
        rest[token_id] = token.content.encode()
    return PieceTable(rest, rest, special)


def _state(decoder: "tokenizers.decoders.Decoder | None") -> dict[str, Any] | None:
    """Return the parts of a decoder, by its pickle, since the whole tokenizer has megabytes."""
    return None if decoder is None else json.loads(decoder.__getstate__())


def _samples(tokenizer: "tokenizers.Tokenizer") -> list[list[int]]:
    try:
        return [tokenizer.encode(_SAMPLE, add_special_tokens=False).ids]
    except BaseException as error:
        # The vocabulary may not know this text.
        if not is_library_fault(error):
            raise
        return []


_Rule = Callable[[str], bytes]


class _Rules(NamedTuple):
    """The pieces of the first and of the other tokens, and how streams use them."""

    first: _Rule
    rest: _Rule
    maps_bytes: bool = False
    make: Callable[[list[Piece], list[Piece]], StreamTable] = StreamTable


def _rules(decoder: dict[str, Any] | None) -> _Rules | None:
    if decoder is None:
        return _Rules(str.encode, lambda token: b" " + token.encode())
    steps = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _Rules(byte_level, byte_level, maps_bytes=True)
    if kinds == ["Metaspace"]:
        return _metaspace(steps[0])
    if kinds == ["ByteFallback", "Metaspace"]:
        rules = _metaspace(steps[1])
        first, rest = _or_byte(rules.first), _or_byte(rules.rest)
        return _Rules(rest if rules.first is rules.rest else first, rest)
    if kinds == ["WordPiece"]:
        return _word_piece(steps[0])
    if kinds == ["CTC"]:
        rule = _ctc(steps[0])
        return _Rules(rule, rule, make=RepeatTable)
    if kinds == ["BPEDecoder"] and steps[0]["suffix"]:
        make = functools.partial(OwedSpaceTable, suffix=steps[0]["suffix"])
        return _Rules(str.encode, str.encode, make=make)
    if kinds[:3] == ["Replace", "ByteFallback", "Fuse"] and _is_space_rule(steps[0]):
        if kinds[3:] == []:
            return _Rules(byte_fallback, byte_fallback)
        if steps[3:] == [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]:
            return _Rules(lambda token: byte_fallback(token).removeprefix(b" "), byte_fallback)
    return None


def _byte_level_map() -> dict[str, int]:
    """Return the byte of each of GPT-2's 256 characters; printable characters are themselves."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    stand_ins = itertools.count(0x100)
    return {chr(byte if byte in printable else next(stand_ins)): byte for byte in range(256)}


BYTE_OF = _byte_level_map()


def byte_level(token: str) -> bytes:
    """Return the bytes of a token that is spelled in GPT-2's characters."""
    try:
        return bytes([BYTE_OF[char] for char in token])
    except KeyError:
        # One character outside the map makes the whole token plain text.
        return token.encode()


def _is_space_rule(step: dict[str, Any]) -> bool:
    return bool(step["pattern"] == {"String": "▁"} and step["content"] == " ")


_HEXADECIMAL = "0123456789abcdefABCDEF"
_BYTE_OF_SPELLING = {
    f"<0x{high}{low}>": bytes([int(high + low, 16)])
    for high in _HEXADECIMAL
    for low in _HEXADECIMAL
}


def _or_byte(rule: _Rule) -> _Rule:
    """Return the rule with an extension: a token spelled like `<0xE4>` is that byte."""
    return lambda token: _BYTE_OF_SPELLING.get(token) or rule(token)


def byte_fallback(token: str) -> bytes:
    """Return the bytes of a token in which `▁` is a space and `<0xE4>` a byte."""
    return _BYTE_OF_SPELLING.get(token) or token.replace("▁", " ").encode()


def _metaspace(step: dict[str, Any]) -> _Rules:
    mark = step["replacement"]

    def rest(token: str) -> bytes:
        return token.replace(mark, " ").encode()

    if step["prepend_scheme"] == "never":
        return _Rules(rest, rest)
    return _Rules(lambda token: token.replace(mark, "").encode(), rest)


def _word_piece(step: dict[str, Any]) -> _Rules:
    prefix = step["prefix"]
    cleanup = _clean_up if step["cleanup"] else lambda text: text

    def rest(token: str) -> bytes:
        joined = token.removeprefix(prefix) if token.startswith(prefix) else " " + token
        return cleanup(joined).encode()

    return _Rules(lambda token: cleanup(token).encode(), rest)


def _ctc(step: dict[str, Any]) -> _Rule:
    pad, delimiter = step["pad_token"], step["word_delimiter_token"]

    def rule(token: str) -> bytes:
        text = token.replace(pad, "")
        return (_clean_up(text).replace(delimiter, " ") if step["cleanup"] else text).encode()

    return rule


_CLEAN_UP = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


def _clean_up(text: str) -> str:
    for before, after in _CLEAN_UP:
        text = text.replace(before, after)
    return text
