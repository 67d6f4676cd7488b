"""Turns a tool-call format and tools into a grammar of texts that consist only of calls.

The format's table is the grammar: each state becomes a rule, with an alternative for each marker
that leads on. So the format's parser reads every text that the grammar allows. Grammars are written
in llguidance's Lark, in which `%json` is a value that a JSON schema allows.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mini_vllm.text.formats import FORMATS, find_format
from mini_vllm.text.schemas import escaped
from mini_vllm.text.states.basic import Gap, Header, Json, Prose, announce
from mini_vllm.text.states.object import Object
from mini_vllm.text.stream_parser import Format, On

# The headers that consist of more than the name, and that `announce` does not read.
_HEADERS = {
    ("kimi_k2", "header"): '"functions." {name} ":" /[0-9]+/',
    ("deepseek_v3", "header"): '"function"',
}
# The format for calls if the model's own format does not consist of JSON objects.
FALLBACK = "xlam"
# The formats that llguidance knows. Others are annotations, as JSON Schema has it.
_FORMATS = frozenset([
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri",
    "unknown",
])  # fmt: skip
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions"))
_VALUES = frozenset(("const", "enum", "default", "example", "examples"))
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


def json_rule(schema: Any, *, white_space: bool = True) -> str:
    """Return the Lark expression of the JSON values that a schema allows.

    Args:
        schema: an object, or a boolean.
        white_space: whether white space is allowed between the tokens of JSON.
    """
    options = {
        "whitespace_flexible": white_space,
        # Allow every escape that JSON has for a string, even if it is not necessary.
        "json_allow_general_unicode_escapes": True,
    }
    schema = {} if schema is True else _without_annotations(schema)
    return (
        f"%json {json.dumps({**schema, 'x-guidance': options} if schema is not False else False)}"
    )


def _without_annotations(schema: Any) -> Any:
    """Return a schema without words that demand nothing, and that llguidance refuses."""
    if isinstance(schema, list):
        return [_without_annotations(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    words = {}
    for word, value in schema.items():
        if word in _MAPS and isinstance(value, Mapping):
            words[word] = {name: _without_annotations(inner) for name, inner in value.items()}
        elif word in _VALUES:
            words[word] = value
        elif not _demands_nothing(word, value):
            words[word] = _without_annotations(value)
    return words


def _demands_nothing(word: str, value: Any) -> bool:
    match word:
        case "format":
            return isinstance(value, str) and value not in _FORMATS
        case "uniqueItems":
            return value is False
        case "propertyNames":
            return value in (True, {}, {"type": "string"})
        case _:
            return False


def _targets(on: Mapping[str, On]) -> list[str]:
    return [way.next for way in on.values()]


def arguments_schema(parameters: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the schema of a call's arguments, restricted to objects."""
    schema = parameters or _NO_ARGUMENTS
    also = schema.get("allOf", [])
    if schema.get("type") == "object" or not isinstance(also, list):
        return schema
    return {**schema, "allOf": [*also, {"type": "object"}]}


class UnwritableFormatError(ValueError):
    """The arguments of a format are not JSON, or its table has a state without a rule here."""


def call_grammar(
    format: str | None,
    tools: Iterable[Mapping[str, Any]],
    *,
    parallel: bool = True,
    answer: str | None = None,
    spell: Callable[[str], str] = json.dumps,
) -> tuple[str, str]:
    """Return the name of the format for calls, and the grammar of one call or more in it.

    Without a format, or if its arguments are not JSON, the format is `FALLBACK`: a bare JSON list
    of calls. vLLM 0.33.0 demands such a list from most models (`get_json_schema_from_tools`).

    Args:
        format: the format of the model's calls, or None.
        tools: valid tools, as in a chat request. A function without parameters takes no arguments.
        parallel: whether there may be several calls.
        answer: the Lark expression of the text that is allowed instead of calls, or None.
        spell: returns a marker as a Lark expression.

    Raises:
        ValueError: the format is unknown.
    """
    functions = [tool["function"] for tool in tools]
    own = FORMATS[FALLBACK] if format is None else find_format(format)
    try:
        return own.name, format_grammar(own, functions, parallel, answer, spell)
    except UnwritableFormatError:
        fallback = FORMATS[FALLBACK]
        return FALLBACK, format_grammar(fallback, functions, parallel, answer, spell)


def format_grammar(
    format: Format,
    functions: Sequence[Mapping[str, Any]],
    parallel: bool = True,
    answer: str | None = None,
    spell: Callable[[str], str] = json.dumps,
) -> str:
    """Return the grammar of one call or more in a format.

    Args:
        format: the format of the calls.
        functions: the `function` objects of the tools.
        parallel: as in `call_grammar`.
        answer: as in `call_grammar`.
        spell: as in `call_grammar`.

    Raises:
        UnwritableFormatError: a state of the format's table has no rule; the message names it.
    """
    return _Writer(format, functions, parallel, spell).write(answer)


class _Writer:
    """Writes the rules of the states that a call passes through."""

    def __init__(
        self,
        format: Format,
        functions: Sequence[Mapping[str, Any]],
        parallel: bool,
        spell: Callable[[str], str],
    ) -> None:
        self._format = format
        self._functions = functions
        self._parallel = parallel
        self._spell = spell
        self._rules: dict[tuple[str, int | None, bool], str] = {}
        self._bodies: list[str] = []
        # Whether calls follow each other within one frame; if not, each call has a frame.
        self._repeats = False

    def write(self, answer: str | None) -> str:
        """Return the grammar."""
        arguments = [
            f"// {json.dumps(function['name'])}\n"
            f"arguments_{number}: {json_rule(arguments_schema(function.get('parameters')))}"
            for number, function in enumerate(self._functions)
        ]
        start = self._rule(self._format.start, None, called=False)
        start += "" if answer is None else f" | {answer}"
        return "\n".join([f"start: {start}", *self._bodies, *arguments, r"W: /[ \n]?/", ""])

    def _rule(self, state: str, function: int | None, *, called: bool) -> str:
        """Return the name of a state's rule, which is written now if it is new.

        Args:
            state: the name of the state.
            function: the number of the called function, once its name is known.
            called: whether a call is complete, so that the text may end.
        """
        key = state, function, called
        if key not in self._rules:
            self._rules[key] = f"rule_{len(self._rules)}"
            self._bodies.append(f"{self._rules[key]}: {self._body(state, function, called)}")
        return self._rules[key]

    def _body(self, name: str, function: int | None, called: bool) -> str:
        state = self._format.states[name]
        if isinstance(state, Prose):
            calls = " | ".join(
                self._follow(marker, on) for marker, on in state.on.items() if on.do == "open"
            )
            again = self._parallel and not self._repeats
            return calls if not called else f"(W ({calls}))?" if again else '""'
        if isinstance(state, Gap):
            gap = "" if name == self._format.start else "W "
            return f"{gap}({' | '.join(self._ways(state, name, function, called))})"
        if isinstance(state, Object):
            after = self._rule(state.then.next, None, called=True)
            calls = " | ".join(self._object(state, number) for number in self._numbers)
            return f"({calls}) {after}"
        if isinstance(state, Header):
            return self._header(state, name, function)
        if isinstance(state, Json) and function is not None:
            return f"W arguments_{function} {self._rule(state.then.next, None, called=True)}"
        kind = type(state).__name__
        raise UnwritableFormatError(
            f"{self._format.name} has the state {name!r}: there is no rule for {kind}"
        )

    @property
    def _numbers(self) -> range:
        return range(len(self._functions))

    def _ways(self, gap: Gap, name: str, function: int | None, called: bool) -> list[str]:
        """Return the ways on from a gap: to a call or, after a call, to the end or another call."""
        home = self._format.home
        ways = {marker: on for marker, on in gap.on.items() if on.next != name}
        if not called:
            on = {marker: on for marker, on in ways.items() if on.next != home}
        else:
            # A marker that the next state also takes replaces a missing marker.
            on = {marker: on for marker, on in ways.items() if not on.keep} or ways
            if gap.otherwise is not None and gap.otherwise.next == home not in _targets(on):
                on = {**on, "": gap.otherwise}
            ends = {marker: way for marker, way in on.items() if not self._calls(way.next, set())}
            self._repeats |= len(ends) < len(on)
            on = on if self._parallel or not ends else ends
        if not on:
            raise UnwritableFormatError(
                f"{self._format.name} has the gap {name!r}: none of its markers leads to a call"
            )
        return [self._follow(marker, way, function, called) for marker, way in on.items()]

    def _calls(self, name: str, seen: set[str]) -> bool:
        """Return whether a state leads to another call within the same frame."""
        state = self._format.states[name]
        if isinstance(state, Gap) and name not in seen:
            return any(self._calls(on.next, {*seen, name}) for on in state.on.values())
        return isinstance(state, Object | Header | Json)

    def _follow(
        self, marker: str, on: On, function: int | None = None, called: bool = False
    ) -> str:
        text = "" if on.keep or not marker else f"{self._spell(marker)} "
        return text + self._rule(on.next, function, called=called)

    def _object(self, state: Object, number: int) -> str:
        """Return an object with name and arguments, and no other member."""
        name = json.dumps(json.dumps(self._functions[number]["name"], ensure_ascii=False))
        members = (
            (state.name, name),
            (state.arguments[0], f"arguments_{number}"),
        )
        said = ' W "," W '.join(
            f'{json.dumps(json.dumps(key))} W ":" W {value}' for key, value in members
        )
        return f'"{{" W {said} W "}}"'

    def _header(self, state: Header, name: str, function: int | None) -> str:
        key = self._format.name, name
        if state.read is not announce and key not in _HEADERS:
            raise UnwritableFormatError(
                f"{self._format.name} has the header {name!r}: it needs `read=announce`, or a row "
                "of _HEADERS with its text"
            )
        ways = []
        for number in self._numbers:
            function_name = self._functions[number]["name"]
            said = json.dumps(function_name)
            header = _HEADERS.get(key, "{name}")
            named = number if "{name}" in header else None
            for marker, on in state.on.items():
                if not on.keep:
                    if marker[:1] == '"' and escaped(function_name) != function_name:
                        raise UnwritableFormatError(
                            f"{self._format.name} ends a name at a quotation mark, so it cannot "
                            f"write {function_name!r:.60}"
                        )
                    follow = self._follow(marker, on, named)
                    ways.append(f"{header.replace('{name}', said)} {follow}")
        return " | ".join(dict.fromkeys(ways))
