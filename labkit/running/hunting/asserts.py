"""The values of a failed `assert` in a student's tests, as its message."""

import ast

_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip
# The most characters of a value.
_MOST = 120


def with_values(tree: ast.Module) -> ast.Module:
    """Give each `assert` of a comparison without a message one that shows both values.

    The tests do the same otherwise: each side is computed once.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.msg is None:
            _show_values(node)
    return ast.fix_missing_locations(tree)


def _show_values(node: ast.Assert) -> None:
    """Turn `assert a == b` into `assert (x := a) == (y := b), f"{x!r} == {y!r}: False"`."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return
    # No name of the student's begins with "@".
    names = "@left", "@right"
    sides = test.left, test.comparators[0]
    test.left, test.comparators[0] = (
        ast.copy_location(ast.NamedExpr(ast.Name(name, ast.Store()), side), side)
        for name, side in zip(names, sides, strict=True)
    )
    left, right = map(_shown, names)
    words = ast.Constant(f" {_OPERATORS[type(test.ops[0])]} "), ast.Constant(": False")
    node.msg = ast.copy_location(ast.JoinedStr([left, words[0], right, words[1]]), test)


def _shown(name: str) -> ast.FormattedValue:
    """Return a part of an f-string: the first characters of a value's `repr`."""
    most = ast.JoinedStr([ast.Constant(f".{_MOST}")])
    return ast.FormattedValue(ast.Name(name, ast.Load()), ord("r"), most)
