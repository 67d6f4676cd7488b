"""Calls as Python writes them."""

import ast
import re

from references import Invalid, S, blocks, skip
from renderers import Style, at_start_or_tagged, canonical, python_value, space


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
    def read(text, place, expected):
        tree, end = list_at(text, skip(text, place))
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
        if not isinstance(tree, ast.List) or not tree.elts or re.search(r"\\[\r\n]", source):
            raise Invalid
        return tree, bracket.end()
    raise Invalid


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
        at_start_or_tagged("<|python_start|>", _pythonic_calls, goes_on="<|python_end|>"),
        ("<|python_start|>", "<|python_end|>", "(", ")"),
        ("<|python_start|>",),
        opening="[",
        sample="[f(a='b)]\\'\\u00e9', n=-1, l=[1, (2, 'x')], o={'k': None}), g()]",
        punctuation=r"[\[\](),='\"]|\\\n",
    ),
}
