"""Rewriting a source so that it counts its own work; see `labkit.running.hunting.work`.

The work of code is then a count, which is the same on every machine, even a busy one. Calls of the
source's functions and rounds of its loops count, and so do the items that built-in operations copy
or read: `a + b`, slices, `find`, `in`, `join`, `decode` and the like count by their length.
"""

import ast
import re
from collections import deque
from functools import lru_cache

# The module that counts, and its counter, a name that no source uses otherwise.
COUNTER = "labkit.running.hunting.work"
_WORK = "WORK"
# Methods whose cost does not grow with the size of their object.
_CONSTANT = {"append", "appendleft", "popleft", "clear", "add", "discard", "end", "start", "span"}
_METHODS = {
    name
    for kind in (str, bytes, bytearray, list, deque, re.Pattern)
    for name in vars(kind)
    if not name.startswith("_")
} - _CONSTANT | {"loads", "dumps", "raw_decode", "group", "union", "intersection", "difference"}
_FUNCTIONS = {
    kind.__name__ for kind in (str, bytes, bytearray, list, tuple, set, frozenset, dict, int, float)
} | {"sorted", "sum", "min", "max", "any", "all", "repr", "deque"}


@lru_cache(maxsize=512)
def metered(source: str) -> str:
    """Return a source that does the same, and counts its steps.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = _Counting().visit(ast.parse(source))
    place = _after_docstring_and_future(tree)
    tree.body.insert(place, ast.parse(f"from {COUNTER} import {_WORK}").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _after_docstring_and_future(tree: ast.Module) -> int:
    place = 0
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        place += 1
    return place


class _Counting(ast.NodeTransformer):
    """Wraps the counter around each operation whose cost may grow with its operands."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Leave its annotation as it is."""
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Leave the annotation as it is."""
        node.value = node.value and self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Count a call of the function."""
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        is_text = isinstance(node.body[0], ast.Expr) and isinstance(
            node.body[0].value, ast.Constant
        )
        node.body.insert(1 if is_text else 0, _step())
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Count a call of the function."""
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.Or(), [_counter("step"), node.body])
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """Count a round of the loop."""
        self.generic_visit(node)
        node.body.insert(0, _step())
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """Count a round of the loop."""
        self.generic_visit(node)
        node.body.insert(0, _step())
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Count a round of the loop in a comprehension."""
        self.generic_visit(node)
        node.iter = _counter("rounds", node.iter)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Count the items copied into the result."""
        self.generic_visit(node)
        is_number = isinstance(node.op, ast.Add | ast.Sub) and (
            _is_plain(node.left) or _is_plain(node.right)
        )
        return node if is_number else _counter("result", node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Count the characters copied into the text; leave its expressions as they are."""
        return _counter("result", node)

    def visit_List(self, node: ast.List) -> ast.AST:
        """Count the items unpacked into a list."""
        return self._display(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        """Count the items unpacked into a tuple."""
        return self._display(node)

    def _display(self, node: ast.List | ast.Tuple) -> ast.AST:
        self.generic_visit(node)
        unpacks = any(isinstance(item, ast.Starred) for item in node.elts)
        return _counter("result", node) if unpacks and isinstance(node.ctx, ast.Load) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Count the items that a slice copies, or that move if it is assigned or deleted."""
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Slice):
            return node
        if isinstance(node.ctx, ast.Load):
            return _counter("result", node)
        ends = [node.slice.lower, node.slice.upper, node.slice.step]
        part = ast.Call(ast.Name("slice", ast.Load()), [_or_none(end) for end in ends], [])
        node.slice = _counter("cut", node.value, part)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Count the items that `+=` copies."""
        target = ast.parse(ast.unparse(node.target), mode="eval").body
        self.generic_visit(node)
        if isinstance(node.op, ast.Add) and not _is_plain(node.value):
            is_variable = ast.Constant(isinstance(target, ast.Name))
            node.value = _counter("added", target, node.value, is_variable)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Count the items that `in` and `==` read."""
        self.generic_visit(node)
        if len(node.ops) > 1:
            return node
        (operator,), left, (right,) = node.ops, node.left, node.comparators
        if isinstance(operator, ast.Eq | ast.NotEq) and (_is_plain(left) or _is_plain(right)):
            return node
        match operator:
            case ast.In():
                return _counter("contains", right, left)
            case ast.NotIn():
                return ast.UnaryOp(ast.Not(), _counter("contains", right, left))
            case ast.Eq():
                return _counter("equal", left, right)
            case ast.NotEq():
                return ast.UnaryOp(ast.Not(), _counter("equal", left, right))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Count the items that built-in functions and methods copy or read."""
        self.generic_visit(node)
        match node.func:
            case ast.Name(name) if name in _FUNCTIONS:
                node.args.insert(0, node.func)
                node.func = _attribute("call")
            case ast.Attribute(owner, name) if name in _METHODS and not _is_super(owner):
                node.args[:0] = [owner, ast.Constant(name)]
                node.func = _attribute("method")
        return node


def _is_plain(node: ast.AST) -> bool:
    """Return whether a node is a number or None: to add it or compare with it copies nothing."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes)


def _is_super(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "super"


def _or_none(node: ast.expr | None) -> ast.expr:
    return ast.Constant(None) if node is None else node


def _attribute(name: str) -> ast.Attribute:
    return ast.Attribute(ast.Name(_WORK, ast.Load()), name, ast.Load())


def _counter(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_attribute(name), [*args], [])


def _step() -> ast.Expr:
    return ast.Expr(_counter("step"))
