"""Calls as Python writes them."""

import ast
import re

from references import Invalid, skip
from renderers import Expected, Style, canonical, python_value, space, whole_text


def _pythonic_calls(calls, tagged, expected, layout):
    written = []
    for call in calls:
        members = [
            f"{space(layout, 1)}{key}{space(layout, 1)}={space(layout, 1)}"
            f"{python_value(value, layout)}{space(layout, 1)}"
            for key, value in call.arguments.items()
        ]
        tail = "," if members and layout.random() < 0.2 else ""
        written.append(f"{call.name}({','.join(members)}{tail})")
        expected.call(call.name, canonical(call.arguments))
    text = "[" + f",{space(layout, 1)}".join(written) + space(layout, 1) + "]"
    if tagged and layout.random() < 0.7:
        text += space(layout, 1) + "<|python_end|>"
    return text


def read_pythonic(text, types):
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


STYLES = {
    "pythonic": Style(
        "pythonic",
        read_pythonic,
        whole_text("<|python_start|>", _pythonic_calls),
        ("<|python_start|>", "<|python_end|>", "(", ")"),
        opening="[<",
        sample="[f(a='b)]\\'\\u00e9', n=-1, l=[1, (2, 'x')], o={'k': None}), g()]",
        punctuation=r"[\[\](),='\"]|\\\n",
    ),
}
