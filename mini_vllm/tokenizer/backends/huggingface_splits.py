"""Whether a Hugging Face tokenizer encodes the text between special tokens piece by piece.

Then the encoding of a prompt is that of its segments in a row, which `CachedTokenizer` may keep.

But: it is sure or it says no. What it does not know counts as unsafe.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import tokenizers

# What neither looks beyond the piece of text that it is given nor adds to it.
_SAFE_NORMALIZERS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Replace"}
_SAFE_PRE_TOKENIZERS = {
    "Split", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "BertPreTokenizer",
}  # fmt: skip


def huggingface_splits_at_specials(
    tokenizer: tokenizers.Tokenizer, special_tokens: Iterable[str]
) -> bool:
    """Return whether a Hugging Face tokenizer is sure to do what L1 needs; in doubt False.

    Args:
        tokenizer: the tokenizer.
        special_tokens: all texts at which the cache would cut: `SpecialTokens.all()`.
    """
    content = json.loads(tokenizer.to_str())
    return (
        not tokenizer.encode_special_tokens
        and not (content["truncation"] or content["padding"] or content["model"].get("dropout"))
        and _cuts_out(content["added_tokens"], set(special_tokens))
        and all(rule["type"] in _SAFE_NORMALIZERS for rule in _flat(content["normalizer"]))
        and all(map(_safe_pre_tokenizer, _flat(content["pre_tokenizer"])))
        and all(map(_safe_post_processor, _flat(content["post_processor"])))
    )


def _flat(rule: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """Return the members of a sequence of sequences; one rule is a sequence of one."""
    if rule is None:
        return []
    if rule["type"] != "Sequence":
        return [rule]
    members = next(value for value in rule.values() if isinstance(value, list))
    return [flat for member in members for flat in _flat(member)]


def _cuts_out(added_tokens: Iterable[Mapping[str, Any]], special: set[str]) -> bool:
    """Return whether `special` are cut out of a text before anything else can touch them."""
    first = {token["content"] for token in added_tokens if not token["normalized"]}
    return (
        special <= first
        and not any(t["lstrip"] or t["rstrip"] or t["single_word"] for t in added_tokens)
        and not any(_takes_start(other, token) for other in first - special for token in special)
    )


def _takes_start(other: str, token: str) -> bool:
    """Return whether an occurrence of `other` may contain the start of one of `token`."""
    return token in other or any(other.endswith(token[:size]) for size in range(1, len(token)))


def _safe_pre_tokenizer(rule: Mapping[str, Any]) -> bool:
    if rule["type"] == "ByteLevel":
        return not rule["add_prefix_space"]
    if rule["type"] == "Metaspace":
        return bool(rule["prepend_scheme"] == "never")
    return rule["type"] in _SAFE_PRE_TOKENIZERS


def _safe_post_processor(rule: Mapping[str, Any]) -> bool:
    if rule["type"] == "ByteLevel":
        # With both, the offsets of a text's first token follow a rule of their own.
        return not (rule["trim_offsets"] and rule["add_prefix_space"])
    if rule["type"] == "TemplateProcessing":
        sequences = [number for number, item in enumerate(rule["single"]) if "Sequence" in item]
        return sequences == [len(rule["single"]) - 1]
    return False
