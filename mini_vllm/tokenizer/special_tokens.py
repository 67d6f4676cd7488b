"""Special tokens and end-of-text ids from the configuration files beside a tokenizer.

`tokenizer_config.json` and `special_tokens_map.json` name the tokens; `config.json` and
`generation_config.json` list the ids that end a generation.
"""

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mini_vllm.text.whole_json import load_json
from mini_vllm.tokenizer.protocols import SpecialTokens
from mini_vllm.tokenizer_errors import CorruptModelFile, checked_file

# Far beyond any vocabulary; without a limit one damaged id makes a table of billions.
_MOST_IDS = 1 << 22
# The usual tokens of each role, for models whose configuration does not name them.
_CANDIDATES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>", "[BOS]"),
    "eos": (
        "</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>",
        "<|im_end|>", "[EOS]",
    ),
    "unk": ("<unk>", "[UNK]"),
    "sep": ("[SEP]", "<sep>"),
    "pad": ("<pad>", "[PAD]"),
    "cls": ("[CLS]", "<cls>"),
    "mask": ("[MASK]", "<mask>"),
}  # fmt: skip
# The added tokens that end an answer whatever a configuration says. Source: llama.cpp,
# src/llama-vocab.cpp, `special_eog_ids` (llama-cpp-python 0.3.36). `</s>` is left out, because it
# is an ordinary token for some models: it ends an answer only if it is the EOS token.
_ENDS = frozenset((
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>",
    "<|calls|>", "<end_of_turn>", "<turn|>", "<|tool_response>", "<|endoftext|>", "<EOT>", "_<EOT>",
    "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<｜end▁of▁sentence｜>",
    "[e~[",
))  # fmt: skip
# With these tokens, `<|end|>` ends a message, and the answer may continue (gpt-oss, Solar Open).
_MESSAGE_FORMATS = (frozenset(("<|return|>", "<|call|>")), frozenset(("<|flush|>", "<|calls|>")))


def special_tokens_of(
    folder: Path | None,
    vocabulary: Container[str],
    declared: Iterable[str] = (),
    own: Mapping[str, str | None] = MappingProxyType({}),
) -> SpecialTokens:
    """Return the special tokens of a vocabulary by role.

    If a configuration file names a role, its token counts; null and a token that the vocabulary
    lacks both mean no token. For other roles the token that the tokenizer itself names counts. The
    remaining roles are guessed, by the usual names among the declared tokens.

    Args:
        folder: the folder of the configuration files, or None.
        vocabulary: the known tokens.
        declared: special tokens that the tokenizer itself names, without roles.
        own: the tokens that the tokenizer itself names by role; None for a role without a token.

    Raises:
        CorruptModelFile: a configuration file is not a JSON object.
    """
    configured = {} if folder is None else _configured(folder)
    declared = [token for token in declared if token in vocabulary]
    roles: dict[str, str | None] = {}
    for role, names in _CANDIDATES.items():
        if f"{role}_token" in configured:
            token = configured[f"{role}_token"]
            roles[role] = token if token in vocabulary else None
        elif role in own:
            roles[role] = own[role]
        else:
            roles[role] = next((name for name in names if name in declared), None)
    named = set(roles.values())
    extra = [*configured.get("additional_special_tokens", ()), *declared]
    rest = tuple(t for t in dict.fromkeys(extra) if t in vocabulary and t not in named)
    return SpecialTokens(**roles, additional=rest)


def ending_tokens(special: Iterable[str]) -> frozenset[str]:
    """Return the special or added tokens of a vocabulary that end an answer, by their text."""
    ends = _ENDS.intersection(special)
    message_ends = any(names <= ends for names in _MESSAGE_FORMATS)
    return ends - {"<|end|>"} if message_ends else ends


def eos_token_ids_of(folder: Path) -> frozenset[int]:
    """Return the end-of-text ids of `config.json` and `generation_config.json` together.

    Raises:
        CorruptModelFile: a file is not a JSON object, or an id in it is not an integer.
    """
    ids: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        value = read_json_object(folder / name).get("eos_token_id")
        for token_id in value if isinstance(value, list) else [] if value is None else [value]:
            if not isinstance(token_id, int):
                raise CorruptModelFile(folder / name, None, f"eos_token_id is {token_id!r}")
            ids.add(token_id)
    return frozenset(ids)


class AddedToken(NamedTuple):
    """A token that a configuration adds to a vocabulary.

    Attributes:
        id: the token's id.
        special: whether the token is special; otherwise it is text.
        lstrip: whether the token absorbs the white space before it.
        rstrip: whether the token absorbs the white space after it.
    """

    id: int
    special: bool
    lstrip: bool = False
    rstrip: bool = False


def added_tokens_of(folder: Path) -> dict[str, AddedToken]:
    """Return the tokens that configuration files add, by their text.

    `tokenizer_config.json` has all attributes; the older `added_tokens.json` has only ids.

    Raises:
        CorruptModelFile: a file is not a JSON object, or an added token has no id or no text.
    """
    special, added = special_names_of(folder), {}
    path = folder / "added_tokens.json"
    flags = AddedToken._fields[1:]
    try:
        for token, key in read_json_object(path).items():
            added[token] = AddedToken(_id(key, path), token in special)
        path = folder / "tokenizer_config.json"
        for key, row in read_json_object(path).get("added_tokens_decoder", {}).items():
            values = (bool(row.get(flag)) for flag in flags)
            added[row["content"]] = AddedToken(_id(key, path), *values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptModelFile(path, None, f"added tokens: {error!r}") from None
    return added


def _id(value: Any, path: Path) -> int:
    token_id = int(value)
    if not 0 <= token_id < _MOST_IDS:
        raise CorruptModelFile(path, None, f"an added token has the id {value!r:.40}")
    return token_id


def special_names_of(folder: Path) -> frozenset[str]:
    """Return the tokens that configuration files mark as special, by a role or by a flag.

    Raises:
        CorruptModelFile: a configuration file is not a JSON object.
    """
    configured = _configured(folder)
    extra = configured.pop("additional_special_tokens", [])
    rows = read_json_object(folder / "tokenizer_config.json").get("added_tokens_decoder", {})
    flagged = [_text(row) for row in _rows(rows) if row.get("special")]
    return frozenset(filter(None, [*configured.values(), *extra, *flagged]))


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if the file is missing.

    Raises:
        CorruptModelFile: the file is not a JSON object.
        UnsupportedFormat: the file is far too large.
    """
    if not path.is_file():
        return {}
    try:
        value = load_json(checked_file(path).read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise CorruptModelFile(path, getattr(error, "pos", None), str(error)) from None
    if not isinstance(value, dict):
        raise CorruptModelFile(path, 0, "not a JSON object")
    return value


def _configured(folder: Path) -> dict[str, Any]:
    """Return the tokens by key, None for null.

    In a file each token is a string or an object with `content`.
    """
    tokens: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        for key, value in read_json_object(folder / name).items():
            if key == "additional_special_tokens" and isinstance(value, list):
                tokens[key] = [token for token in map(_text, value) if token is not None]
            elif key.endswith("_token") and (value is None or _text(value) is not None):
                tokens[key] = _text(value)
    return tokens


def _rows(value: Any) -> list[dict[str, Any]]:
    """Return the objects in an object; `added_tokens_of` reports values of other types."""
    rows = value.values() if isinstance(value, dict) else ()
    return [row for row in rows if isinstance(row, dict)]


def _text(token: Any) -> str | None:
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
