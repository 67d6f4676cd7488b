"""Special tokens and end-of-text ids from the configuration files beside a tokenizer.

`tokenizer_config.json` and `special_tokens_map.json` name the tokens; `config.json` and
`generation_config.json` list the ids that end a generation.
"""

import json
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from mini_vllm.tokenizer.protocols import SpecialTokens
from mini_vllm.tokenizer_errors import CorruptModelFile

# What vocabularies call these roles, for models whose configuration does not say.
_CANDIDATES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "[BOS]"),
    "eos": ("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "[EOS]"),
    "unk": ("<unk>", "[UNK]"),
    "sep": ("[SEP]", "<sep>"),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]", "<cls>"),
    "mask": ("[MASK]", "<mask>"),
}


def special_tokens_of(
    folder: Path | None, vocabulary: Container[str], declared: Iterable[str] = ()
) -> SpecialTokens:
    """Return the special tokens of a vocabulary by role.

    Args:
        folder: where the configuration files are, or None.
        vocabulary: the known tokens; a role whose token is missing there stays empty.
        declared: special tokens that the tokenizer itself names, without roles.

    Raises:
        CorruptModelFile: a configuration file is not a JSON object.
    """
    configured = {} if folder is None else _configured(folder)
    roles: dict[str, str | None] = {}
    for role, names in _CANDIDATES.items():
        token = configured.get(f"{role}_token")
        wanted = (token,) if token is not None else names
        roles[role] = next((name for name in wanted if name in vocabulary), None)
    named = set(roles.values())
    extra = [*configured.get("additional_special_tokens", ()), *declared]
    rest = tuple(t for t in dict.fromkeys(extra) if t in vocabulary and t not in named)
    return SpecialTokens(**roles, additional=rest)


def eos_token_ids_of(folder: Path) -> frozenset[int]:
    """Return the end-of-text ids of `config.json` and `generation_config.json` together.

    Raises:
        CorruptModelFile: one of them is not a JSON object, or an id in it is not an integer.
    """
    ids: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        value = read_json_object(folder / name).get("eos_token_id")
        for token_id in value if isinstance(value, list) else [] if value is None else [value]:
            if not isinstance(token_id, int):
                raise CorruptModelFile(folder / name, None, f"eos_token_id is {token_id!r}")
            ids.add(token_id)
    return frozenset(ids)


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if the file is missing.

    Raises:
        CorruptModelFile: it is not a JSON object.
    """
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CorruptModelFile(path, getattr(error, "pos", None), str(error)) from None
    if not isinstance(value, dict):
        raise CorruptModelFile(path, 0, "not a JSON object")
    return value


def _configured(folder: Path) -> dict[str, Any]:
    """Return the tokens by key; a file gives each as a string or an object with `content`."""

    def text(token: Any) -> str | None:
        content = token.get("content") if isinstance(token, dict) else token
        return content if isinstance(content, str) else None

    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        for key, value in read_json_object(folder / name).items():
            if key == "additional_special_tokens" and isinstance(value, list):
                found[key] = [token for token in map(text, value) if token is not None]
            elif key.endswith("_token") and text(value) is not None:
                found[key] = text(value)
    return found
