"""What a whole text stands for, one reader per format: an oracle that shares no code with a parser.

`reference(format, text, types)` returns the events of a text that is written as its format
demands, and None for any other. It sees all of the text at once and may go back and forth, so it is
short: regular expressions, `json.JSONDecoder().raw_decode`, `ast`.
"""

import ast
import json
import re
from functools import partial

from renderers import Expected, canonical

from mini_vllm.text.events import ReasoningDelta

SPACE = re.compile(r"[ \t\r\n]*")
NAME = r"([^\s<>\"'{}()\[\]|]{1,200})"


class Invalid(Exception):
    """The text is not as the format demands."""


def _refuse(constant):
    raise ValueError(constant)


DECODER = json.JSONDecoder(parse_constant=_refuse)


def skip(text, place):
    return SPACE.match(text, place).end()


def value_end(text, place):
    try:
        return DECODER.raw_decode(text, place)[1]
    except ValueError:
        raise Invalid from None


def object_at(text, place):
    """Return (the source of the object, its end)."""
    place = skip(text, place)
    end = value_end(text, place)
    if text[place] != "{":
        raise Invalid
    return text[place:end], end


def expect(pattern, text, place):
    match = re.compile(pattern).match(text, place)
    if match is None:
        raise Invalid
    return match


def call_object(text, place, keys=("arguments",), others=None):
    """Read an object with a name and arguments; return (name, arguments, id, end)."""
    source, end = object_at(text, place)
    members, inner = {}, skip(source, 1)
    while source[inner] != "}":
        key, inner = DECODER.raw_decode(source, inner)
        start = skip(source, expect(r"[ \t\r\n]*:", source, inner).end())
        inner = value_end(source, start)
        key = "arguments" if key in keys else key
        if key in members or (others is not None and key not in {"arguments", *others}):
            raise Invalid
        members[key] = source[start:inner]
        inner = skip(source, inner)
        if source[inner] == ",":
            inner = skip(source, inner + 1)
    order = list(members)
    if "name" not in order or not members.get("arguments", "").startswith("{"):
        raise Invalid
    name, id = json.loads(members["name"]), None
    if not isinstance(name, str) or not name:
        raise Invalid
    # An id counts if it stands before the call is announced.
    announced = max(order.index("name"), order.index("arguments"))
    if "id" in order[:announced] and members["id"].startswith('"'):
        id = json.loads(members["id"])
    return name, members["arguments"], id, end


def blocks(text, opener, read):
    """Prose and blocks: `read(text, place, expected)` reads one from behind its opener."""
    expected, place = Expected(), 0
    while (start := text.find(opener, place)) >= 0:
        expected.text(text[place:start])
        place = read(text, start + len(opener), expected)
    expected.text(text[place:])
    return expected.events


def hermes(text, types):
    def read(text, place, expected):
        name, arguments, id, place = call_object(text, place)
        expected.call(name, arguments, id)
        return expect(r"[ \t\r\n]*</tool_call>", text, place).end()

    return blocks(text, "<tool_call>", read)


def mistral(text, types):
    def read(text, place, expected):
        bracket = skip(text, place)
        if text[bracket : bracket + 1] != "[":
            header = expect(rf"\s*{NAME}\s*(?:\[CALL_ID\]\s*{NAME}\s*(?=\[ARGS\]))?", text, place)
            behind = re.compile(r"\[ARGS\][ \t\r\n]*|(?=\{)").match(text, header.end())
            if behind is None:
                raise Invalid
            arguments, end = object_at(text, behind.end())
            expected.call(header[1], arguments, header[2])
            return end
        place = bracket + 1
        while True:
            name, arguments, id, place = call_object(text, place)
            expected.call(name, arguments, id)
            place = expect(r"[ \t\r\n]*[,\]]", text, place).end()
            if text[place - 1] == "]":
                return place

    return blocks(text, "[TOOL_CALLS]", read)


def llama_json(text, types):
    expected, place = Expected(), skip(text, 0)
    if text.startswith("<|python_tag|>", place):
        place += len("<|python_tag|>")
    elif text[place : place + 1] == "{":
        expected.text(text[:place])
    elif place == len(text) or text[place] != "<":
        expected.text(text)
        return expected.events
    while True:
        keys = ("parameters", "arguments")
        name, arguments, id, place = call_object(text, place, keys, ("name", "type", "id"))
        expected.call(name, arguments, id)
        more = re.compile(r"[ \t\r\n]*;").match(text, place)
        if more is None:
            expected.text(text[place:])
            return expected.events
        place = more.end()


def pythonic(text, types):
    expected, place = Expected(), skip(text, 0)
    if text.startswith("<|python_start|>", place):
        place += len("<|python_start|>")
    elif text[place : place + 1] == "[":
        expected.text(text[:place])
    elif place == len(text) or text[place] != "<":
        expected.text(text)
        return expected.events
    body = text[place:].strip(" \t\r\n")
    if body.endswith("<|python_end|>"):
        body = body.removesuffix("<|python_end|>")
    elif text[-1:] != "]":
        raise Invalid
    try:
        tree = ast.parse(body.strip(), mode="eval").body
        if not isinstance(tree, ast.List) or not tree.elts or re.search(r"\\[\r\n]", body):
            raise Invalid
        for call in tree.elts:
            if not isinstance(call, ast.Call) or call.args:
                raise Invalid
            name = ast.unparse(call.func)
            arguments = {item.arg: literal(item.value) for item in call.keywords}
            if not re.fullmatch(r"[^\W\d][\w.]*", name) or len(arguments) < len(call.keywords):
                raise Invalid
            expected.call(name, canonical(arguments))
    except (SyntaxError, ValueError, RecursionError):
        raise Invalid from None
    return expected.events


def literal(node):
    """Evaluate what JSON has, too; no sums, bytes, sets, or keys that are no strings."""
    for inner in ast.walk(node):
        constant = isinstance(inner, ast.Constant) and not isinstance(inner.value, bytes | complex)
        rest = ast.Dict | ast.List | ast.Tuple | ast.UnaryOp | ast.USub | ast.Load
        if not constant and not isinstance(inner, rest):
            raise Invalid
        if isinstance(inner, ast.Dict) and not all(
            isinstance(key, ast.Constant) and isinstance(key.value, str) for key in inner.keys
        ):
            raise Invalid
    return ast.literal_eval(node)


def element(text, place, expected, types, header, parameter, closer, framed=False):
    """Read a call with one element per parameter; the patterns are those of whole elements."""
    head = expect(header, text, place)
    place, arguments, allowed = head.end(), {}, types.get(head[1], {})
    while match := re.compile(parameter, re.DOTALL).match(text, place):
        key, value = match[1], match[2]
        if framed:
            value = value.removeprefix("\n").removesuffix("\n")
        if key in arguments:
            raise Invalid
        arguments[key] = typed(value, allowed.get(key))
        place = match.end()
    place = expect(closer, text, place).end()
    expected.call(head[1], canonical(arguments))
    return place


def typed(text, kind):
    """A parameter as the type of its schema if it is one, else as it is written."""
    bare = text.strip()
    words = {"True": True, "False": False, "None": None}
    try:
        value = words[bare] if bare in words else json.loads(bare, parse_constant=_refuse)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return text
    kinds = [kind] if isinstance(kind, str) else kind or []
    names = {
        bool: ["boolean"], int: ["integer", "number"], float: ["number"], list: ["array"],
        dict: ["object"], type(None): ["null"],
    }.get(type(value), [])  # fmt: skip
    return value if "string" not in kinds and set(names) & set(kinds) else text


S = r"[ \t\r\n]*"


def tagged(opener, *patterns, framed=False):
    """A reader of a format with an opener before each call and an element per parameter."""

    def read(text, place, expected, types):
        return element(text, place, expected, types, *patterns, framed=framed)

    return lambda text, types: blocks(text, opener, partial(read, types=types))


qwen3_coder = tagged(
    "<tool_call>",
    rf"{S}<function=\s*{NAME}\s*>{S}",
    rf"<parameter=\s*{NAME}\s*>(.*?)</parameter>{S}",
    rf"</function>{S}</tool_call>",
    framed=True,
)
glm45 = tagged(
    "<tool_call>",
    rf"[^\S\n]*{NAME}[^\S\n]*(?:\n|(?=<)){S}",
    rf"<arg_key>\s*{NAME}\s*</arg_key>{S}<arg_value>(.*?)</arg_value>{S}",
    "</tool_call>",
)


def minimax_m2(text, types):
    patterns = (
        rf'{S}<invoke name="\s*{NAME}\s*">{S}',
        rf'<parameter name="\s*{NAME}\s*">(.*?)</parameter>{S}',
        "</invoke>",
    )

    def read(text, place, expected):
        first = place
        while not (end := re.compile(rf"{S}</minimax:tool_call>").match(text, place)):
            place = element(text, place, expected, types, *patterns)
        if place == first:
            raise Invalid
        return end.end()

    return blocks(text, "<minimax:tool_call>", read)


def sections(text, opener, closer, call):
    """Calls in a section: `call` matches the header of one and captures id and name."""

    def read(text, place, expected):
        head, end = call
        count = 0
        while not (stop := re.compile(S + re.escape(closer)).match(text, place)):
            match = expect(S + head, text, place)
            arguments, place = object_at(text, match.end())
            expected.call(match["name"], arguments, match.groupdict().get("id"))
            place = expect(S + re.escape(end), text, place).end()
            count += 1
        if not count:
            raise Invalid
        return stop.end()

    return blocks(text, opener, read)


def kimi_k2(text, types):
    head = (
        r"<\|tool_call_begin\|>\s*(?P<id>functions\.(?P<name>[^\s<>\"'{}()\[\]|]+?):\d+)\s*"
        r"<\|tool_call_argument_begin\|>"
    )
    end = "<|tool_call_end|>"
    return sections(text, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", (head, end))


def deepseek_v31(text, types):
    head = rf"<｜tool▁call▁begin｜>\s*(?P<name>{NAME[1:-1]})\s*<｜tool▁sep｜>"
    return sections(
        text, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", (head, "<｜tool▁call▁end｜>")
    )


def harmony(text, types):
    expected, place = Expected(), 0
    header = re.compile(
        r"(?:<\|start\|>(?:assistant)?(?: to=functions\.(?P<first>[\w.-]+))?)?"
        r"<\|channel\|>(?P<channel>analysis|commentary|final)"
        r"(?: to=functions\.(?P<second>[\w.-]+))?\s*(?:<\|constrain\|>json)?\s*<\|message\|>"
    )
    body = re.compile(r"(.*?)(<\|end\|>|<\|return\|>|<\|call\|>|(?=<\|start\|>)|\Z)", re.DOTALL)
    while place < len(text):
        start = re.compile(r"<\|start\|>|<\|channel\|>").search(text, place)
        expected.text(text[place : start.start() if start else len(text)])
        if not start:
            break
        head = header.match(text, start.start())
        if head is None:
            raise Invalid
        name = head["first"] or head["second"]
        if name:
            arguments, end = object_at(text, head.end())
            expected.call(name, arguments)
            place = expect(rf"{S}(?:<\|call\|>|<\|end\|>|<\|return\|>|\Z)", text, end).end()
        else:
            message = body.match(text, head.end())
            kind = (ReasoningDelta,) if head["channel"] == "analysis" else ()
            expected.text(message[1], *kind)
            place = message.end()
    return expected.events


READERS = {
    "hermes": hermes, "mistral": mistral, "llama_json": llama_json, "pythonic": pythonic,
    "qwen3_coder": qwen3_coder, "kimi_k2": kimi_k2, "harmony": harmony, "glm45": glm45,
    "deepseek_v31": deepseek_v31, "minimax_m2": minimax_m2,
}  # fmt: skip


def reference(format, text, types):
    """Return the events of a text, or None if it is not as its format demands.

    Args:
        format: the name of the format.
        text: all of the text.
        types: for each function the types of its parameters, as `renderers.PARAMETERS` has them.
    """
    try:
        return READERS[format](text, types)
    except Invalid:
        return None
