"""Calls to text, and the events that the text stands for: the parts of renderers.

A renderer writes prose and calls as a model of the family does, with white space, spelling and
order of members drawn from `layout`. What it returns is the pair (text, events): the events follow
from the calls alone, so neither a parser nor a reference is asked.
"""

import functools
import json
import re
from dataclasses import dataclass

from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, TextDelta

# Which types the parameters have that the tools below name; `any` has a schema without a type.
PARAMETERS = {
    "path": "string",
    "count": "integer",
    "ratio": "number",
    "flag": "boolean",
    "items": "array",
    "options": "object",
    "nothing": "null",
    "either": ["integer", "null"],
    "maybe": ["string", "null"],
    "mixed": ["string", "integer", "array"],
    "any": None,
}
NAMES = ["f", "get_weather", "browser.search", "größe", "search-web2"]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {
                    key: {"type": kind} if kind else {"description": "anything"}
                    for key, kind in PARAMETERS.items()
                },
            },
        },
    }
    for name in NAMES
]
_KINDS = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list,
    "object": dict, "null": type(None),
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call as it is meant: a name, and arguments as a value."""

    name: str
    arguments: dict


class Expected:
    """Collects the events that a text stands for."""

    def __init__(self):
        self.events = []
        self.calls = 0

    def text(self, text, kind=TextDelta):
        if text and self.events and type(self.events[-1]) is kind:
            self.events[-1] = kind(self.events[-1].text + text)
        elif text:
            self.events.append(kind(text))

    def call(self, name, arguments, id=None):
        self.events += [
            CallStart(self.calls, id, name),
            ArgsDelta(self.calls, arguments),
            CallEnd(self.calls),
        ]
        self.calls += 1


def with_references(text):
    """The text of an attribute."""
    return text.replace("&", "&amp;").replace('"', "&quot;")


def space(layout, most=2):
    return "".join(layout.choice(" \n\t\r") for _ in range(layout.randint(0, most)))


@functools.cache
def json_spellings(char):
    """The spellings that a character has in a string of JSON."""
    plain = json.dumps(char, ensure_ascii=False)[1:-1]
    ways = [plain, plain, plain, json.dumps(char)[1:-1]]
    if ord(char) < 0x10000:
        ways.append(f"\\u{ord(char):04X}")
    if char == "/":
        ways.append("\\/")
    return ways


def json_string(text, layout):
    """A string as JSON, each character in one of the spellings that it has."""
    spelled = (layout.choice(json_spellings(char)) for char in text)
    return f'"{"".join(spelled)}"'


def json_value(value, layout):
    """A value as JSON, with white space wherever it may be."""
    if isinstance(value, str):
        return json_string(value, layout)
    if isinstance(value, dict):
        members = [
            f"{space(layout, 1)}{json_string(key, layout)}{space(layout, 1)}:"
            f"{space(layout, 1)}{json_value(item, layout)}{space(layout, 1)}"
            for key, item in value.items()
        ]
        return "{" + (",".join(members) or space(layout)) + "}"
    if isinstance(value, list):
        items = [f"{space(layout, 1)}{json_value(item, layout)}" for item in value]
        return "[" + (",".join(items) or space(layout)) + "]"
    return json.dumps(value)


def json_object(call, layout, keys=("arguments",), id=None, others=(), names=("name", "id")):
    """A call as one object, members in any order; return (text, arguments, id if it is seen).

    `names` is what the members with the name and the id are called.
    """
    arguments = json_value(call.arguments, layout)
    members = [(names[0], json_string(call.name, layout)), (layout.choice(keys), arguments)]
    if layout.random() < 0.2:
        members.reverse()
    needed = 2
    if id is not None:
        place = layout.randint(0, 2)
        members.insert(place, (names[1], json.dumps(id)))
        needed += place < 2
        id = id if place < 2 else None
    for other in others:
        members.insert(layout.randint(0, len(members)), other)
    inside = ",".join(
        f"{space(layout, 1)}{json_string(key, layout)}{space(layout, 1)}:{space(layout, 1)}{value}"
        for key, value in members
    )
    return "{" + inside + space(layout) + "}", arguments, id


def python_string(text, layout, plain=""):
    """A string as Python, in either quotes, with any of its escapes.

    `plain` are the characters that need none, though Python would say so.
    """
    quote = layout.choice("'\"")
    spelled = []
    for char in text:
        escaped = repr("'\"" + char)[4:-1] if char not in "'\"" else char
        if char == quote:
            escaped = "\\" + quote
        ways = [escaped, escaped, escaped, f"\\U{ord(char):08x}"]
        if (char.isprintable() and char not in "'\"\\") or char in plain:
            ways.append(char)
        if ord(char) < 0x10000:
            ways.append(f"\\u{ord(char):04X}")
        if ord(char) < 0x100:
            ways += [f"\\x{ord(char):02x}", f"\\{ord(char):03o}"]
        spelled.append(layout.choice(ways))
    return quote + "".join(spelled) + quote


def python_value(value, layout, plain=""):
    """A value as a Python literal; lists also as tuples and, if that is possible, as sets."""
    if isinstance(value, str):
        return python_string(value, layout, plain)
    if isinstance(value, dict):
        members = [
            f"{python_string(key, layout, plain)}:{space(layout, 1)}"
            f"{python_value(item, layout, plain)}"
            for key, item in value.items()
        ]
        return "{" + ", ".join(members) + ("," if members and layout.random() < 0.2 else "") + "}"
    if isinstance(value, list):
        items = ", ".join(python_value(item, layout, plain) for item in value)
        if layout.random() < 0.3:
            return f"({items}{',' if len(value) == 1 else ''})"
        if value and layout.random() < 0.1:
            return f"{{{items}}}"
        return f"[{items}{',' if value and layout.random() < 0.2 else ''}]"
    if value is None or isinstance(value, bool):
        return str(value)
    return json.dumps(value)


def canonical(value):
    return json.dumps(value, ensure_ascii=False)


def tagged_value(call, key, value, layout):
    """The text of a parameter, and the value that a reader gets."""
    kind = PARAMETERS.get(key) if call.name in NAMES else None
    kinds = [kind] if isinstance(kind, str) else kind or []
    if isinstance(value, str):
        # In place of another type, a text that is not one by chance.
        value = value if kind in ("string", None) else "x" + value
        return value, value
    text = json_value(value, layout)
    if isinstance(value, bool | None) and layout.random() < 0.5:
        text = str(value)
        kinds = [] if "string" in kinds else kinds
    fits = any(isinstance(value, _KINDS[name]) for name in kinds if name != "string")
    if isinstance(value, bool):
        fits = "boolean" in kinds
    if isinstance(value, float) and value.is_integer() and "string" not in kinds:
        fits = fits or "integer" in kinds
    if value is None:
        fits = fits or (kinds != [] and "string" not in kinds)
    return text, value if fits else text


def calls_in_prose(write, opening="", closing=""):
    """A renderer of a format with prose around each call, or around each section of calls.

    `write(call, number, layout)` returns the text of a call, the arguments and the id.
    """

    def render(calls, prose, layout):
        expected, text, inside = Expected(), "", False
        for number, (call, before) in enumerate(zip([*calls, None], prose, strict=True)):
            if inside and (call is None or before or layout.random() < 0.3):
                text += closing
                inside = False
            text += before
            expected.text(before)
            if call is not None:
                text += opening + space(layout, 1) if opening and not inside else ""
                written, arguments, id = write(call, number, layout)
                text += written + (space(layout, 1) if opening else "")
                expected.call(call.name, arguments, id)
                inside = bool(opening)
        return text, expected.events

    return render


def json_array(calls, expected, layout, **members):
    """Calls as one array, with ids or without; adds their events to `expected`."""
    text = "["
    for number, call in enumerate(calls):
        id = layout.choice([None, "Abc123xyZ"])
        body, arguments, id = json_object(call, layout, id=id, **members)
        text += f"{',' if number else ''}{space(layout)}{body}{space(layout)}"
        expected.call(call.name, arguments, id)
    return text + "]"


def array_in_prose(openers, closer="", **members):
    """A renderer of a format whose calls are one array, with prose before and behind it."""

    def render(calls, prose, layout):
        expected, text = Expected(), prose[0]
        expected.text(text)
        if calls:
            opener = layout.choice(openers)
            array = json_array(calls, expected, layout, **members)
            text += opener + space(layout)
            text += array.removeprefix("[") if opener.endswith("[") else array
            text += f"{space(layout)}{closer}{prose[-1]}" if closer else prose[-1]
            expected.text(prose[-1])
        return text, expected.events

    return render


def framed_prose(render, markers):
    """A renderer that also writes, around prose, markers that stand for nothing.

    Args:
        render: the renderer of the calls; markers are not in its prose otherwise.
        markers: opening and closing ones, in turn.
    """
    pairs = list(zip(markers[::2], markers[1::2], strict=True))

    def render_framed(calls, prose, layout):
        framed = [
            text if not text or layout.random() < 0.5 else text.join(layout.choice(pairs))
            for text in prose
        ]
        text, events = render(calls, framed, layout)
        return text, [
            TextDelta(re.sub("|".join(map(re.escape, markers)), "", event.text))
            if isinstance(event, TextDelta)
            else event
            for event in events
        ]

    return render_framed


def at_start_or_tagged(tag, write, goes_on):
    """A renderer of a format whose calls begin the text, or stand anywhere behind a tag.

    Args:
        tag: the tag.
        write: `write(calls, tagged, expected, layout)` returns the text of all calls.
        goes_on: what after calls is not prose.
    """

    def render(calls, prose, layout):
        expected = Expected()
        tagged = bool(calls) and layout.random() < 0.5
        text = prose[0] if tagged or not calls else space(layout, 1)
        expected.text(text if text.strip(" \t\r\n") or not tagged else "")
        if calls:
            text += tag + space(layout, 1) if tagged else ""
            text += write(calls, tagged, expected, layout)
            if not prose[-1].lstrip(" \t\r\n").startswith(goes_on):
                text += prose[-1]
                expected.text(prose[-1])
        return text, expected.events

    return render


def tagged_call(header, parameter, closer, value_of=tagged_value):
    """What writes a call with one piece of text per parameter.

    `value_of(call, key, value, layout)` returns the text, and the value that a reader gets.
    """

    def write(call, number, layout):
        text, value = header(call, layout), {}
        for key, item in call.arguments.items():
            written, value[key] = value_of(call, key, item, layout)
            text += parameter(key, written, layout)
        return text + closer(layout), canonical(value), None

    return write


@dataclass(frozen=True)
class Style:
    """One way in which a format is written.

    Renderers are made of the functions above, references of those in `references`.

    Attributes:
        format: its name.
        read: the reference.
        render: the renderer.
        markers: all strings that mean something in it.
        openers: those that mean something in prose.
        closers: those that may not be in the text of a parameter.
        opening: what prose may not begin with, in a format that has no marker.
        sample: a text to be cut in every way, which calls `f`, or `f` and then `g`.
        punctuation: a regex of what stands between calls, besides markers and white space.
        python: whether calls are written as Python writes them.
        reads: what makes values of texts, besides the readers of JSON and of Python.
        sections: whether there is markup that may stand without a call, and vanishes then.
        one_list: whether calls are items of one list, so that a malformed one takes all others
            with it.
        open_end: whether nothing shows where the last call ends, so that a malformed one takes
            the rest of the text with it.
    """

    format: str
    read: object
    render: object
    markers: tuple
    openers: tuple = ()
    closers: tuple = ()
    opening: str = ""
    sample: str = ""
    punctuation: str = ""
    python: bool = False
    reads: tuple = ()
    sections: bool = False
    one_list: bool = False
    open_end: bool = False

    @property
    def json(self):
        """Whether arguments are passed on as they are written."""
        return not self.python and not self.closers
