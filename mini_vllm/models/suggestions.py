"""Values for JSON that a schema demands: its own examples, samples of formats, words of the prompt.

`json_choice` decides which of them the mask of a grammar allows.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mini_vllm.engine.request import StructuredOutputsParams
from mini_vllm.models.pattern_sample import pattern_sample
from mini_vllm.text.schemas import schema_branches

Schemas = list[Mapping[str, Any]]
_MOST_WORDS = 8
_MOST_NAMES = 8
# A text without spaces is cut: it must not fill the whole answer.
_MOST_BYTES, _FEW_BYTES = 40, 12
_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
}
# A schema in a grammar, and before it the name of its function, as `call_grammar` writes it.
_SCHEMA = re.compile(r'(?:^// ("(?:[^"\\]|\\.)*")\n\w+: )?%json (?=[{tf])', re.MULTILINE)
_MARKUP = re.compile(r"<[^<>]{1,40}>")
_TURN = re.compile(r"\buser\b\W*\n")
_WORD = re.compile(r"[^\W_][\w'’-]*[^\W_]|[^\W\d_]")
_NAME = re.compile(r"[\"'`“]([A-Za-z_]\w{0,40})[\"'`”]")


class Suggestions:
    """The words of a prompt, as values.

    Args:
        prompt: the text before the output.

    Attributes:
        names: names for the members of an object without a schema.
    """

    def __init__(self, prompt: str) -> None:
        self._words, self.names = _words(prompt)
        self._spoken = 0
        self._shortest = _cut(min(self._words, key=len), _FEW_BYTES)

    def values(self, branches: Schemas, place: int, *, is_root: bool, is_deep: bool) -> list[bytes]:
        """Return values that a schema suggests, as JSON, the best first.

        Objects and arrays are only begun.

        Args:
            branches: the schemas that apply.
            place: the number of the value in its array; it chooses the first suggestion.
            is_root: whether it is the whole answer.
            is_deep: whether null, numbers and short strings are preferred to more depth.
        """
        literals: list[Any] = []
        for branch in branches:
            literals += list_of(branch, "examples")
            literals += [branch[word] for word in ("const", "default") if word in branch]
            literals += list_of(branch, "enum")
        if literals:
            # The items of an array differ, as far as they can.
            first = place % len(literals)
            literals = literals[first:] + literals[:first]
            return [*dict.fromkeys(as_json(value) for value in literals[:_MOST_WORDS])]
        kinds = [kind for branch in branches for kind in _kinds(branch)]
        if is_deep:
            kinds.sort(key=lambda kind: kind in ("array", "object"))
        kind = next((kind for kind in kinds if kind != "null"), None)
        if is_deep and "null" in kinds:
            return [b"null"]
        match kind:
            case "object":
                return [b"{"]
            case "array":
                return [b"["]
            case "boolean":
                return [b"true", b"false"]
            case "integer" | "number":
                return [_number(branches, kind)]
        for branch in branches:
            sample = _FORMATS.get(str(branch.get("format")))
            if sample:
                return [as_json(sample)]
        if kind is None and is_root:
            return [b"{"]
        best = self._shortest if is_deep else self.word()
        for branch in branches:
            if isinstance(pattern := branch.get("pattern"), str):
                sample = pattern_sample(pattern, best)
                if sample is not None:
                    return [as_json(sample)]
        words = [best] if is_deep else [best, *self._words[:3]]
        return [as_json(word) for word in dict.fromkeys(words)]

    def word(self) -> str:
        """Return the next word of the prompt, beginning with the last."""
        self._spoken += 1
        return self._words[(self._spoken - 1) % len(self._words)]


def schemas_in(params: StructuredOutputsParams) -> Iterator[tuple[str | None, Any]]:
    """Yield the JSON schemas of a demanded form, each with the function that it is for, or None."""
    if params.json is not None:
        yield None, json.loads(params.json)
    elif params.grammar is not None:
        for match in _SCHEMA.finditer(params.grammar):
            try:
                schema = json.JSONDecoder().raw_decode(params.grammar, match.end())[0]
            except ValueError:
                # A literal of the grammar that only looks like a schema.
                continue
            yield match[1] and json.loads(match[1]), schema


def owner_of(roots: Sequence[Any], schema: Any) -> Any:
    """Return the root in which a reference of `schema` is resolved: the first that has it."""
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    if reference is None:
        return None
    return next((root for root in roots if len(schema_branches(schema, root)) > 1), None)


def _words(prompt: str) -> tuple[list[str], list[str]]:
    """Return words of the user's last message, the last first, and the names that it quotes."""
    *_, text = _TURN.split(prompt)
    text = text.split("<|end|>", 1)[0] if len(text) < len(prompt) else prompt[-400:]
    text = _MARKUP.sub(" ", text)
    words = [word for word in _WORD.findall(text)[::-1] if word not in ("assistant", "user")]
    telling = [word for word in words if len(word) > 3 or not word.islower()]
    names = [*dict.fromkeys(_NAME.findall(text))][:_MOST_NAMES]
    values = [word for word in telling if word not in names]
    short = (_cut(word, _MOST_BYTES) for word in values or words or ["answer"])
    return [*dict.fromkeys(short)][:_MOST_WORDS], names or ["answer"]


def _cut(word: str, most: int) -> str:
    """Return the characters of a word that fit in so many bytes."""
    return word.encode(errors="replace")[:most].decode(errors="ignore")


def as_json(value: Any) -> bytes:
    """Return a value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def properties_of(branch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties of a schema by name, or nothing if they are malformed."""
    properties = branch.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def list_of(branch: Mapping[str, Any], word: str) -> list[Any]:
    """Return a member of a schema that is a list, or an empty list."""
    values = branch.get(word)
    return values if isinstance(values, list) else []


def count_of(branch: Mapping[str, Any], word: str) -> int:
    """Return a member of a schema that is a number, or 0."""
    value = branch.get(word)
    return int(value) if isinstance(value, int | float) else 0


def _kinds(branch: Mapping[str, Any]) -> list[str]:
    kind = branch.get("type")
    kinds = kind if isinstance(kind, list) else [kind] if kind else []
    if not kinds and "properties" in branch:
        kinds = ["object"]
    return [str(kind) for kind in kinds]


def _number(branches: Schemas, kind: str) -> bytes:
    """Return a number at a limit of the schema, or 1."""
    limits = {
        word: value
        for branch in branches
        for word in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
        if isinstance(value := branch.get(word), int | float)
    }
    step = limits.get("multipleOf", 1)
    low = limits.get("minimum", limits.get("exclusiveMinimum"))
    high = limits.get("maximum", limits.get("exclusiveMaximum"))
    if kind == "number" and low is not None and high is not None:
        value = low if "minimum" in limits else (low + high) / 2
    elif low is not None:
        value = low + step * ("minimum" not in limits)
    else:
        value = step if high is None else min(step, high - step * ("maximum" not in limits))
    return as_json(int(value) if kind == "integer" else value)
