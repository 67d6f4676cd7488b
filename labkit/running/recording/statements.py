"""The `return` statements of a file, and the lines that run after them.

A function that returns inside a `with` or a `try` with a `finally` runs the line of the `with`, or
those of the `finally`, before it leaves. Python reports that line as the one that returns.
"""

import ast
from collections.abc import Sequence
from functools import lru_cache


class Statements:
    """The `return` statements of a file.

    Args:
        source: the text of the file; a text that is not Python has no statements.
    """

    def __init__(self, source: str) -> None:
        try:
            nodes = [*ast.walk(ast.parse(source))]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            nodes = []
        self._returns = [node for node in nodes if isinstance(node, ast.Return)]
        # The lines that run on leaving, and the lines of the block that is left.
        self._left: list[tuple[range, range]] = []
        for node in nodes:
            if isinstance(node, ast.With | ast.AsyncWith):
                self._left.append((range(node.lineno, node.body[0].lineno), _lines(node.body)))
            elif isinstance(node, ast.Try | ast.TryStar) and node.finalbody:
                block = range(node.lineno, node.finalbody[0].lineno)
                self._left.append((_lines(node.finalbody), block))

    def return_at(self, line: int) -> ast.Return | None:
        """Return the innermost `return` statement that has a line; None if there is none."""
        own = [node for node in self._returns if line in _lines([node])]
        return min(own, key=lambda node: len(_lines([node])), default=None)

    def is_left(self, line: int) -> bool:
        """Return whether a line runs on leaving a block."""
        return any(line in lines for lines, _ in self._left)

    def leaves(self, line: int, statement: ast.Return) -> bool:
        """Return whether a line runs on leaving a block that has a `return` statement."""
        return any(line in lines and statement.lineno in block for lines, block in self._left)

    def only_calls(self, line: int) -> bool:
        """Return whether a line returns the value of a call and does nothing else."""
        node = self.return_at(line)
        return node is not None and _may_be_of_call(node.value)


@lru_cache(maxsize=8)
def statements_of(source: str) -> Statements:
    """Return the statements of a file by its text."""
    return Statements(source)


def _may_be_of_call(value: ast.expr | None) -> bool:
    """Return whether an expression may have the value of a call, unchanged."""
    match value:
        case ast.Call():
            return True
        case ast.Await(value=inner) | ast.NamedExpr(value=inner):
            return _may_be_of_call(inner)
        case ast.IfExp(body=one, orelse=other):
            return _may_be_of_call(one) or _may_be_of_call(other)
        case ast.BoolOp(values=values):
            return any(map(_may_be_of_call, values))
    return False


def _lines(nodes: Sequence[ast.stmt]) -> range:
    return range(nodes[0].lineno, (nodes[-1].end_lineno or nodes[-1].lineno) + 1)
