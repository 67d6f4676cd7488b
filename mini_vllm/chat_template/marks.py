"""Distinguishes the special tokens that a template wrote from those that a message only spells.

A special token in a rendered prompt counts only if the template wrote it. While a template renders,
the special tokens in its own text have other letters: lone surrogates, which message texts never
contain. So special tokens can be distinguished even if the template trims, cuts or escapes a
message, or joins it with other messages. When a template compares texts or searches for a text, its
letters are the usual letters, so it matches the texts of messages. llama.cpp's templates mark the
texts of messages instead (`common/jinja`). If a mark is lost there, a message's text becomes
special; if a mark is lost here, a special token becomes text.

But: if a template takes part of a special token from a message, the token is text, unless that part
is the role of a message, as in `'<|' + message.role + '|>'`.
"""

import re
from collections.abc import Iterable
from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

Spans = list[tuple[int, int]]


class Marks:
    """Other letters for the special tokens of a template's own text.

    Args:
        tokens: the special tokens.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._tokens = sorted(filter(None, tokens), key=len, reverse=True)
        letters = sorted(set("".join(self._tokens)))[: len(_MARKS)]
        self._on = dict(zip(map(ord, letters), _MARKS, strict=False))
        self._off = {ord(mark): chr(letter) for letter, mark in self._on.items()}
        self._plain_pattern = _any_of(self._tokens)
        # A token with more letters than there are marks never counts.
        marked = [token for token in self._tokens if set(token) <= set(letters)]
        self._marked_pattern = _any_of([token.translate(self._on) for token in marked])
        self._starts = {token[:size] for token in self._tokens for size in range(1, len(token))}
        self._ends = {token[size:] for token in self._tokens for size in range(1, len(token))}

    def put_on(self, text: str) -> str:
        """Mark special tokens, and possible parts of special tokens at both ends of a text."""
        longest = min(len(text), len(self._tokens[0]) - 1) if self._tokens else 0
        sizes = range(longest, 0, -1)
        start = next((size for size in sizes if text[:size] in self._ends), 0)
        end = next((size for size in sizes if text[-size:] in self._starts), 0)
        whole = [match.span() for match in self._plain_pattern.finditer(text)]
        letters = list(text)
        for begin, stop in [*whole, (0, start), (len(text) - end, len(text))]:
            letters[begin:stop] = text[begin:stop].translate(self._on)
        return "".join(letters)

    def take_off(self, value: Any) -> Any:
        """Return a text, list or dict with the usual letters, and any other value unchanged."""
        if isinstance(value, str):
            # Much faster than looking at each letter.
            plain = value.isascii() or not _has_surrogates(value)
            return value if plain else value.translate(self._off)
        if isinstance(value, list | tuple):
            return [self.take_off(item) for item in value]
        if isinstance(value, dict):
            return {key: self.take_off(item) for key, item in value.items()}
        return value

    def read(self, text: str, roles: Iterable[str]) -> tuple[str, Spans, bool]:
        """Return a rendered text with the usual letters, and the special tokens in it.

        Args:
            text: what the template rendered.
            roles: the roles of the messages. A token may contain a role, such as `<|user|>`.

        Returns:
            The text, the spans of the template's own special tokens, and whether there are no other
            special tokens.
        """
        for role in filter(None, roles):
            for token in self._tokens:
                before, sep, after = token.partition(role)
                if sep and before and after:
                    made = before.translate(self._on) + role + after.translate(self._on)
                    text = text.replace(made, token.translate(self._on))
        own = [match.span() for match in self._marked_pattern.finditer(text)]
        parts: list[str] = []
        done = 0
        for start, end in own:
            parts += self.take_off(text[done:start]), text[start:end].translate(self._off)
            done = end
        plain = "".join([*parts, self.take_off(text[done:])])
        return plain, own, own == [m.span() for m in self._plain_pattern.finditer(plain)]


_MARKS = list(map(chr, range(0xD800, 0xE000)))


def _any_of(tokens: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tokens)) or "(?!)")


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


# Not a valid name, so that no template can write it.
TAKE_OFF = "take off"
# Filters and methods whose arguments become part of the text: all arguments, or all but the first.
# Other filters and methods compare their arguments.
_WRITING = {"cycle", "d", "default", "format", "join"}
_WRITING_REST = {"get", "replace"}
_LOOKING = {"startswith", "endswith", "find", "rfind", "index", "rindex", "count"}


class MarkOwnText(NodeTransformer):
    """Marks the text of a template, and removes the marks where text is compared or searched."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        """Mark the text outside of expressions."""
        node.data = self._marks.put_on(node.data)
        return node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        """Mark a text in an expression."""
        if isinstance(node.value, str):
            node.value = self._marks.put_on(node.value)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """Compare without marks."""
        self.generic_visit(node)
        node.expr = _usual(node.expr)
        for operand in node.ops:
            operand.expr = _usual(operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        """Look up without marks."""
        self.generic_visit(node)
        node.arg = _usual(node.arg)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        """Leave the keys of dicts without marks."""
        self.generic_visit(node)
        node.key = _usual(node.key)
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Node:
        """Test without marks."""
        self.generic_visit(node)
        if node.args and node.name != "sameas":
            node.node = _usual(node.node)
            node.args = list(map(_usual, node.args))
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        """Leave the arguments of filters without marks, except texts that the filters write."""
        self.generic_visit(node)
        if node.name == "tojson" and node.node is not None:
            # It may escape non-ASCII characters, including marks.
            node.node = _usual(node.node)
        _usual_arguments(node, node.name)
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        """Leave the arguments of methods without marks, except texts that the methods write."""
        self.generic_visit(node)
        if isinstance(node.node, nodes.Getattr):
            _usual_arguments(node, node.node.attr)
            if node.node.attr in _LOOKING:
                node.node.node = _usual(node.node.node)
        return node


def _usual(node: nodes.Expr) -> nodes.Expr:
    if isinstance(node, nodes.Slice):
        return node
    return nodes.Filter(node, TAKE_OFF, [], [], None, None, lineno=node.lineno)


def _usual_arguments(node: nodes.Filter | nodes.Call, name: str) -> None:
    if name in _WRITING:
        return
    first = 1 if name in _WRITING_REST else len(node.args)
    node.args = [*map(_usual, node.args[:first]), *node.args[first:]]
    for keyword in node.kwargs:
        keyword.value = _usual(keyword.value)
