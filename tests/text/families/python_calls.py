"""Calls as Python writes them."""

import ast
import re
from functools import partial

from references import Invalid, S, blocks, call_array, call_object, expect, skip
from renderers import (
    Style,
    array_in_prose,
    at_start_or_tagged,
    calls_in_prose,
    canonical,
    python_value,
    space,
)


def write_call(call, layout, plain=""):
    members = [
        f"{space(layout, 1)}{key}{space(layout, 1)}={space(layout, 1)}"
        f"{python_value(value, layout, plain)}{space(layout, 1)}"
        for key, value in call.arguments.items()
    ]
    tail = "," if members and layout.random() < 0.2 else ""
    return f"{call.name}({','.join(members)}{tail})"


def _pythonic_calls(calls, tagged, expected, layout):
    text = f",{space(layout, 1)}".join(write_call(call, layout) for call in calls)
    for call in calls:
        expected.call(call.name, canonical(call.arguments))
    text = f"[{text}{space(layout, 1)}]"
    if tagged and layout.random() < 0.7:
        text += space(layout, 1) + "<|python_end|>"
    return text


def _olmo3_call(call, number, layout):
    return (
        write_call(call, layout) + layout.choice(["\n", "\n", ""]),
        canonical(call.arguments),
        None,
    )


def _lfm2_call(call, number, layout):
    text = write_call(call, layout, "\n\r")
    text = f"[{space(layout, 1)}{text}{space(layout, 1)}]" if layout.random() < 0.8 else text
    text = f"{space(layout, 1)}{text}{space(layout, 1)}"
    return f"{_LFM2[0]}{text}{_LFM2[1]}", canonical(call.arguments), None


def read_pythonic(text, types):
    def read(text, place, expected):
        tree, end = list_at(text, skip(text, place))
        read_calls(tree, expected)
        tag = re.compile(rf"{S}<\|python_end\|>").match(text, end)
        return tag.end() if tag else end

    return blocks(text, "<|python_start|>", read, bare="[")


def list_at(text, place):
    """Return (the list there, its end): the first bracket up to which the text is Python."""
    for bracket in re.finditer(r"\]", text):
        source = text[place : bracket.end()]
        try:
            tree = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            continue
        if re.search(r"\\[\r\n]", source):
            raise Invalid
        return tree, bracket.end()
    raise Invalid


def read_calls(tree, expected):
    """Read a list of calls."""
    if not isinstance(tree, ast.List) or not tree.elts:
        raise Invalid
    for call in tree.elts:
        if not isinstance(call, ast.Call) or call.args:
            raise Invalid
        name = ast.unparse(call.func)
        try:
            arguments = {item.arg: literal(item.value) for item in call.keywords}
            written = canonical(arguments)
        except (ValueError, RecursionError):
            raise Invalid from None
        if not re.fullmatch(r"[^\W\d][\w.]*", name) or len(arguments) < len(call.keywords):
            raise Invalid
        expected.call(name, written)


def parsed(text):
    """Return the tree of an expression.

    Raises:
        Invalid: it is none, or it has a backslash at the end of a line, which we do not read.
    """
    if re.search(r"\\[\r\n]", text):
        raise Invalid
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise Invalid from None


def escape_lines(text):
    """Write the line breaks inside of strings as Python demands."""
    for char, escape in (("\n", r"\n"), ("\r", r"\r")):
        inside = partial(lambda char, escape, match: match[0].replace(char, escape), char, escape)
        text = re.sub(_STRING, inside, text, flags=re.DOTALL)
    return text


def read_olmo3(text, types):
    def read(text, place, expected):
        # Without a call the tags are text.
        expect(rf"{S}[^\W\d]", text, place)
        while name := re.compile(rf"{S}[^\W\d][\w.]*{S}(?=\()").match(text, place):
            start, place = place, bracket_end(text, name.end())
            read_calls(parsed(f"[{text[start:place].strip()}]"), expected)
        return expect(rf"{S}</function_calls>", text, place).end()

    return blocks(text, _OLMO3[0], read)


def bracket_end(text, place):
    """Return the place behind the bracket that closes the one at `place`."""
    depth = 0
    for part in re.compile(rf"{_STRING}|[()]", re.DOTALL).finditer(text, place):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if depth == 0:
            return part.end()
    raise Invalid


def read_lfm2(text, types):
    def read(text, place, expected):
        parts = re.compile(f"{_STRING}|{re.escape(_LFM2[1])}", re.DOTALL).finditer(text, place)
        ends = (match for match in parts if match[0] == _LFM2[1])
        end = next(ends, None)
        if end is None:
            raise Invalid
        body = text[place : end.start()].strip(" \t\r\n")
        if re.search(r"\\[\r\n]", body):
            raise Invalid
        if re.match(r"\[?[ \t\r\n]*{", body):
            if read_objects(text, place, expected) != end.start():
                raise Invalid
            return end.end()
        body = escape_lines(body)
        read_calls(parsed(body if body[:1] == "[" else f"[{body}]"), expected)
        return end.end()

    return blocks(text, _LFM2[0], read)


def read_objects(text, place, expected):
    """Read an object or an array of them; return the end of what follows it."""
    keys = ("arguments", "parameters")
    start = skip(text, place)
    if text[start] == "[":
        return skip(text, call_array(text, start + 1, expected, keys=keys))
    name, arguments, id, end = call_object(text, start, keys)
    expected.call(name, arguments, id)
    return skip(text, end)


def read_literal(text):
    """Evaluate one literal.

    Raises:
        Invalid: it is none.
    """
    return literal(parsed(escape_lines(text)))


def literal(node):
    """Evaluate what JSON has, and sets as lists; no sums, bytes, or keys that are no strings."""
    if isinstance(node, ast.Constant) and not isinstance(node.value, bytes | complex):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [literal(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        if all(isinstance(key, str) for key in keys):
            return dict(zip(keys, map(literal, node.values), strict=True))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = literal(node.operand)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return -number
    raise Invalid


_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_OLMO3 = ("<function_calls>", "</function_calls>")
_LFM2 = ("<|tool_call_start|>", "<|tool_call_end|>")

STYLES = {
    "pythonic": Style(
        "pythonic",
        read_pythonic,
        at_start_or_tagged("<|python_start|>", _pythonic_calls, goes_on="<|python_end|>"),
        ("<|python_start|>", "<|python_end|>", "(", ")"),
        ("<|python_start|>",),
        opening="[",
        sample="[f(a='b)]\\'\\u00e9', n=-1, l=[1, (2, 'x')], o={'k': None}), g()]",
        python=True,
        punctuation=r"[\[\](),='\"]|\\\n",
        one_list=True,
        open_end=True,
    ),
    "lfm2": Style(
        "lfm2",
        read_lfm2,
        calls_in_prose(_lfm2_call),
        (*_LFM2, "(", ")"),
        _LFM2[:1],
        python=True,
        punctuation=r"[\[\](),='\"]|\\\n",
        sample="I.<|tool_call_start|>[f(a='<|tool_call_end|>)\n', n=-1, s={1, 'x'}), g()]"
        "<|tool_call_end|>\nOk.",
    ),
    "lfm2-json": Style(
        "lfm2",
        read_lfm2,
        array_in_prose(_LFM2[:1], _LFM2[1], keys=("arguments", "parameters")),
        _LFM2,
        _LFM2[:1],
        punctuation=r"[,\[\]]",
        sample='<|tool_call_start|>[{"name": "f", "arguments": {"a": "<|tool_call_end|>"}}, '
        '{"name": "g", "parameters": {}}]<|tool_call_end|>',
        one_list=True,
    ),
    "olmo3": Style(
        "olmo3",
        read_olmo3,
        calls_in_prose(_olmo3_call, *_OLMO3),
        (*_OLMO3, "(", ")"),
        _OLMO3[:1],
        python=True,
        punctuation=r"[\[\](),='\"]|\\\n",
        sample="I. <function_calls>f(a='</function_calls>', n=-1, l=[1, (2, 'x')], o=None)\ng()\n"
        "</function_calls> Ok.",
        one_list=True,
    ),
}
