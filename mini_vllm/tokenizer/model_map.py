"""Maps the name of a model to its tokenizer: a table of rules, read from the top.

A rule matches a name exactly, by prefix or by regex, and names a target: an encoding of tiktoken
such as `cl100k_base`, or a path or hub id. The user's rules precede the built-in rules, which know
OpenAI's models. A file of rules is TOML or JSON:

    [[rules]]
    match = "prefix"           # or "exact" or "regex"
    pattern = "my-gpt"         # a regex must match the whole name
    target = "cl100k_base"

Nothing is loaded, and nothing is guessed: a name that no rule matches resolves to None, and targets
need not exist.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from mini_vllm.text.whole_json import load_json
from mini_vllm.tokenizer_errors import CorruptModelFile, TokenizerFileNotFound

ENVIRONMENT_VARIABLE = "MINI_VLLM_MODEL_MAP"
_KINDS = ("exact", "prefix", "regex")


@dataclass(frozen=True, slots=True)
class ModelRule:
    """One line of the table.

    Args:
        match: how `pattern` is compared: "exact", "prefix" or "regex" (of the whole name).
        pattern: a name, the start of a name, or a regex.
        target: the place of the model's tokenizer, as the user wrote it.

    Raises:
        ValueError: a field is missing, empty or not a text, or the regex is invalid.
    """

    match: Literal["exact", "prefix", "regex"]
    pattern: str
    target: str

    def __post_init__(self) -> None:
        if self.match not in _KINDS:
            raise ValueError(f"unknown match {self.match!r}; write one of {', '.join(_KINDS)}")
        for name in ("pattern", "target"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise ValueError(f"{name} is {value!r}; write a non-empty text")
        if self.match == "regex":
            try:
                re.compile(self.pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(
                    f"{self.pattern!r} is not a regex ({error}); correct it or use match = 'prefix'"
                ) from None

    def matches(self, name: str) -> bool:
        """Return whether the rule applies to `name`."""
        if self.match == "exact":
            return name == self.pattern
        if self.match == "prefix":
            return name.startswith(self.pattern)
        return re.fullmatch(self.pattern, name) is not None


_ENCODINGS = (
    "cl100k_base", "o200k_base", "o200k_harmony", "p50k_base", "p50k_edit", "r50k_base",
)  # fmt: skip
_BUILT_IN = (
    *(ModelRule("exact", name, name) for name in _ENCODINGS),
    ModelRule("regex", r"(text|code)-davinci-edit-.*", "p50k_edit"),
    ModelRule("regex", r"(chat)?gpt-4o.*|gpt-(4\.1|4\.5|5).*|o\d(-.*)?", "o200k_base"),
    ModelRule("regex", r"gpt-4(-.*)?|gpt-3\.?5.*", "cl100k_base"),
    ModelRule("regex", r"text-embedding-(ada-002|3-.*)|(davinci|babbage)-002", "cl100k_base"),
    ModelRule("regex", r"text-davinci-00[23]|code-(davinci|cushman)-.*", "p50k_base"),
    ModelRule("regex", r"((davinci|cushman)-)?codex", "p50k_base"),
    ModelRule("regex", r"(text-)?(davinci|curie|babbage|ada)(-001)?", "r50k_base"),
)
# With an organisation these are repositories of the hub, which also have a chat template.
_OPEN_MODELS = (
    ModelRule("regex", r"gpt-oss(-.*)?", "o200k_harmony"),
    ModelRule("regex", r"gpt-?2", "r50k_base"),
)
_BUILT_IN_NAMES = (
    "gpt-4o", "gpt-4o-mini", "chatgpt-4o-latest", "gpt-4.1", "gpt-4.5", "gpt-5", "o1", "o3-mini",
    "gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "text-embedding-ada-002", "text-embedding-3-small",
    "text-davinci-003", "text-davinci-002", "code-davinci-002", "text-davinci-edit-001",
    "text-davinci-001", "davinci", "curie", "babbage", "ada", "davinci-002", "babbage-002", "codex",
    "gpt2", "gpt-oss-20b", "gpt-oss-120b", *_ENCODINGS,
)  # fmt: skip


class ModelTokenizerMap:
    """The user's rules, then the built-in rules; the first rule that matches wins.

    Args:
        rules: the user's rules, as `ModelRule` or as mappings of its three fields.

    Raises:
        ValueError: a rule is invalid; the message says which, and what to write.
    """

    def __init__(self, rules: Iterable[ModelRule | Mapping[str, object]] = ()) -> None:
        self.rules = tuple(_rule(number, rule) for number, rule in enumerate(rules, 1))

    @classmethod
    def load(cls, path: str | Path | None = None) -> "ModelTokenizerMap":
        """Read the rules of a `.toml` or `.json` file.

        Without `path` it reads the file that MINI_VLLM_MODEL_MAP names. If that is also unset, only
        the built-in rules apply.

        Raises:
            TokenizerFileNotFound: the file does not exist.
            CorruptModelFile: the file is not TOML, or not JSON.
            ValueError: the file is of another kind, or a rule is invalid.
        """
        path = path or os.environ.get(ENVIRONMENT_VARIABLE)
        if not path:
            return cls()
        try:
            return cls(_read(Path(path)))
        except ValueError as error:
            raise ValueError(f"model map {path}: {error}") from None

    def resolve(self, name: str) -> str | None:
        """Return the target of the first rule that matches `name`, or None.

        A leading `org/` is ignored, but the user's rules may also match the name with it.
        """
        bare = name.rpartition("/")[2]
        for rule in self.rules:
            if rule.matches(name) or rule.matches(bare):
                return rule.target
        rules = _BUILT_IN if "/" in name else _BUILT_IN + _OPEN_MODELS
        return next((rule.target for rule in rules if rule.matches(bare)), None)

    def near(self, name: str) -> list[str]:
        """Return up to three known names most like `name`, the best first."""
        own = [rule.pattern for rule in self.rules if rule.match != "regex"]
        by_folded = {known.casefold(): known for known in (*_BUILT_IN_NAMES, *own)}
        folded_name = name.rpartition("/")[2].casefold()
        return [by_folded[match] for match in difflib.get_close_matches(folded_name, by_folded)]


def _rule(number: int, rule: object) -> ModelRule:
    if isinstance(rule, ModelRule):
        return rule
    try:
        return _rule_of_mapping(rule)
    except ValueError as error:
        raise ValueError(f"rule {number}: {error}") from None


def _rule_of_mapping(rule: object) -> ModelRule:
    names = [field.name for field in fields(ModelRule)]
    if not isinstance(rule, Mapping):
        raise ValueError(f"it is {rule!r:.60}; write a table with {', '.join(names)}")
    missing = [name for name in names if name not in rule]
    unknown = [str(name) for name in rule if name not in names]
    if missing or unknown:
        problems = [f"no {name!r}" for name in missing] + [f"unknown {name!r}" for name in unknown]
        raise ValueError(f"{', '.join(problems)}; write exactly {', '.join(names)}")
    return ModelRule(**rule)


def _read(path: Path) -> list[Mapping[str, object]]:
    kind = path.suffix.lower()
    if kind not in (".toml", ".json"):
        raise ValueError(f"{kind or 'no'} suffix; name the file .toml or .json")
    if not path.is_file():
        raise TokenizerFileNotFound(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text) if kind == ".toml" else load_json(text)
    except UnicodeDecodeError as error:
        raise CorruptModelFile(path, error.start, "not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise CorruptModelFile(path, None, f"not {kind[1:].upper()}: {error}") from None
    rules = content.get("rules") if isinstance(content, dict) else content
    if not isinstance(rules, list) or (isinstance(content, dict) and len(content) > 1):
        raise ValueError("the file must hold one list named 'rules', and nothing else")
    return rules
