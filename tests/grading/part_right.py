"""Part-right submissions: a solution with one or two edits to its syntax tree, by seed."""

import ast
import random

_COMPARISONS = [ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq]


def mutate(source, seed):
    """Return the source of a submission that is right in part, the same for a seed."""
    generator = random.Random(seed)
    tree = ast.parse(source)
    for _ in range(generator.randint(1, 2)):
        edits = [edit for node in _bodies(tree) for edit in _edits(node, generator)]
        generator.choice(edits)()
    return ast.unparse(ast.fix_missing_locations(tree)).encode()


def _bodies(tree):
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node for function in functions for node in ast.walk(function)]


def _edits(node, generator):
    if isinstance(node, ast.Compare):
        yield lambda: node.ops.__setitem__(0, generator.choice(_COMPARISONS)())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield lambda: setattr(node, "op", other)
    if isinstance(node, ast.If):
        yield lambda: setattr(node, "test", ast.Constant(generator.random() < 0.5))
        yield lambda: setattr(node, "orelse", [])
    if isinstance(node, ast.Return) and node.value is not None:
        yield lambda: setattr(node, "value", generator.choice(_VALUES)())
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield lambda: setattr(node, "value", node.value + generator.choice([-1, 1]))
    if isinstance(node, ast.FunctionDef):
        error = ast.parse(f'raise {generator.choice(_ERRORS)}("lab: it is not written yet")').body
        yield lambda: setattr(node, "body", error)


_ERRORS = ["NotImplementedError", "ValueError", "KeyError"]
_VALUES = [
    lambda: ast.Constant(None),
    lambda: ast.Constant(""),
    lambda: ast.Constant(0),
    lambda: ast.List([], ast.Load()),
]
