"""Runs of lines by which texts are compared: as they are, and as code without names and layout.

- In any text: three lines in a row. Indentation does not count.
- In Python, and in its blocks in Markdown: three statements in a row of one function, or fewer long
  statements. Docstrings, comments, imports, annotations and layout do not count. A name counts as
  the place at which it first appears in the run. Only constants, and names that a copier cannot
  change, count as they are: Python's own functions and the methods of its types.

But: a statement that is split, moved or reworded is another statement.
"""

import ast
import builtins
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

_LINES = 3
# Three statements count if they have so many words together. Shorter runs are often common code.
# Measured: a million lines of other people's code have no run of a reference.
_FEWEST_WORDS = 22
# Constructors have many plain stores, in any course.
_MOST_OF_A_STORE = 3
# Fewer statements count if they have so many words: as many as fill three lines.
_WORDS_OF_LINES = 45
_SAYS_NOTHING = re.compile(r'|"""|(?:import|from) .+')
_CODE_BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_FUNCTIONS_OF_PYTHON = {*dir(builtins)}
_METHODS_OF_PYTHON = {name for kind in (str, bytes, list, dict, set) for name in dir(kind)}
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_LEFT_OUT = {*_BLOCKS, "annotation", "returns", "type_params", "type_comment", "ctx", "kind"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Run(NamedTuple):
    """A run of lines.

    Attributes:
        key: the key for comparison; keys of lines and of code are never equal.
        first, last: the numbers of its lines, both included.
    """

    key: tuple[object, ...]
    first: int
    last: int


class _Kind(Enum):
    """The kind of a word of a tree: a constant or a node's type, or a kind of name."""

    CONSTANT = auto()
    BINDING = auto()
    USE = auto()
    ATTRIBUTE = auto()
    KEYWORD = auto()


class _Statement(NamedTuple):
    """A statement without its blocks.

    Attributes:
        words: the words of its tree.
        weight: how many words count: none for a function's head, few for a plain store.
        first, last: the numbers of its lines, both included.
    """

    words: list[tuple[str, _Kind]]
    weight: int
    first: int
    last: int


def runs(text: str) -> Iterator[Run]:
    """Yield the runs of any text."""
    yield from _line_runs(text)
    for before, tree in _trees(text):
        for statements in _functions(tree):
            for run in _statement_runs(statements):
                yield Run(run.key, run.first + before, run.last + before)


def _line_runs(text: str) -> Iterator[Run]:
    """Yield the runs of lines, without lines that say nothing: blank lines, imports, quotes."""
    stripped = enumerate(map(str.strip, text.splitlines()), 1)
    lines = [(number, line) for number, line in stripped if not _SAYS_NOTHING.fullmatch(line)]
    for at in range(len(lines) - _LINES + 1):
        numbers, key = zip(*lines[at : at + _LINES], strict=True)
        yield Run(key, numbers[0], numbers[-1])


def _trees(text: str) -> Iterator[tuple[int, ast.Module]]:
    """Yield the Python in a text, and the number of lines before it."""
    if tree := _parsed(text):
        yield 0, tree
        return
    for block in _CODE_BLOCK.finditer(text):
        if tree := _parsed(block[1]):
            yield text.count("\n", 0, block.start(1)), tree


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(textwrap.dedent(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _functions(tree: ast.Module) -> Iterator[list[_Statement]]:
    """Yield the statements of each function, its head first, and those between functions."""
    bodies = [tree.body]
    for body in bodies:
        between: list[_Statement] = []
        for node in body:
            if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                between += _statements(node)
                continue
            yield between
            between = []
            if isinstance(node, ast.ClassDef):
                bodies.append(node.body)
            else:
                yield [*_statements(node)]
        yield between


def _statements(node: ast.AST) -> Iterator[_Statement]:
    """Yield a statement and those inside of it, in order."""
    if isinstance(node, ast.AnnAssign) and node.value:
        node = ast.copy_location(ast.Assign([node.target], node.value), node)
    if not _does_nothing(node):
        parts = [*_parts(node)]
        words = [word for part in parts for word in _words(part)]
        # A block's last line does not belong to its head.
        lines = [part.end_lineno or 0 for part in parts if isinstance(part, ast.expr | ast.pattern)]
        first = getattr(node, "lineno", lines[0] if lines else 0)
        weight = 0 if isinstance(node, _FUNCTIONS) else len(words)
        weight = min(weight, _MOST_OF_A_STORE) if _is_plain_store(node) else weight
        yield _Statement(words, weight, first, max([first, *lines]))
    for block in _BLOCKS:
        inside = getattr(node, block, None)
        for statement in inside if isinstance(inside, list) else ():
            yield from _statements(statement)


def _does_nothing(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Pass | ast.AnnAssign)


def _is_plain_store(node: ast.AST) -> bool:
    """Return whether a statement only stores a name, a constant or something empty."""
    if not isinstance(node, ast.Assign):
        return False
    value = node.value
    is_empty = isinstance(value, ast.List | ast.Tuple) and not value.elts
    return is_empty or isinstance(value, ast.Name | ast.Constant)


def _parts(node: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """Yield a node and its children, in order, without the blocks of a statement."""
    yield node
    for name, value in ast.iter_fields(node):
        if name not in _LEFT_OUT or (inside and name in _BLOCKS):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _parts(child, inside=True)


def _words(part: ast.AST) -> Iterator[tuple[str, _Kind]]:
    """Yield the type of a node, with the number of its children in each field; then its names."""
    if isinstance(part, ast.Constant):
        yield repr(part.value), _Kind.CONSTANT
        return
    fields = [value for name, value in ast.iter_fields(part) if name not in _LEFT_OUT]
    shape = [len(value) if isinstance(value, list) else value is not None for value in fields]
    yield f"{type(part).__name__} {shape}", _Kind.CONSTANT
    for value in fields:
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str):
                yield name, _kind(part)


def _kind(part: ast.AST) -> _Kind:
    if isinstance(part, ast.Attribute):
        return _Kind.ATTRIBUTE
    if isinstance(part, ast.keyword | ast.MatchClass):
        return _Kind.KEYWORD
    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
        return _Kind.USE
    return _Kind.BINDING


def _statement_runs(statements: Sequence[_Statement]) -> Iterator[Run]:
    """Yield for each statement the shortest run that starts there and counts."""
    for at in range(len(statements)):
        weight = 0
        for end in range(at, len(statements)):
            weight += statements[end].weight
            if weight >= (_FEWEST_WORDS if end - at + 1 >= _LINES else _WORDS_OF_LINES):
                run = statements[at : end + 1]
                yield Run(_key(run), run[0].first, run[-1].last)
                break


def _key(statements: Sequence[_Statement]) -> tuple[object, ...]:
    """Return the words of statements, with numbers for names: in order of their first places."""
    bindings = {word for each in statements for word, kind in each.words if kind is _Kind.BINDING}
    numbers: dict[tuple[str, _Kind], int] = {}

    def value(word: str, kind: _Kind) -> object:
        if kind is _Kind.USE and (word in bindings or word not in _FUNCTIONS_OF_PYTHON):
            kind = _Kind.BINDING
        if kind in (_Kind.CONSTANT, _Kind.USE):
            return word
        if kind is _Kind.ATTRIBUTE and word in _METHODS_OF_PYTHON:
            return word
        return numbers.setdefault((word, kind), len(numbers))

    return tuple(tuple(value(*word) for word in each.words) for each in statements)
