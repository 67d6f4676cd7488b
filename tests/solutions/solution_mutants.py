"""Mutants of the labs' reference solutions: what each lab's tests do not notice.

    python tests/solutions/solution_mutants.py 04 08       # all mutants of two labs: minutes
    python tests/solutions/solution_mutants.py --first 2   # the first two of each lab: seconds

A mutant is the solution with one change, made by machine: a comparison, a constant, a condition or
an operator is another one, a statement is left out, two statements are swapped, or None is
returned. A mutant with 100 points is a gap in the lab's tests, unless no caller can distinguish it
from the solution. `equivalent.toml` lists those mutants, with the reason; at most one in twenty of
a lab.

The solution of a hunt is a list of tests, and left out: its score is what it notices.
"""

import argparse
import ast
import builtins
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from labkit.course.lab import Lab, find_labs
from labkit.gates.lab_runs.runs import Outcome, Question, answers
from labkit.running.result_kind import ResultKind

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
MOST_EQUIVALENT = 0.05

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)


@dataclass(frozen=True)
class Mutant:
    """A changed solution.

    Attributes:
        name: the function, the old code and the new code in one line, which no other mutant of
            the lab has.
        source: the whole changed module.
    """

    name: str
    source: str


def solution_mutants(lab: Lab) -> list[Mutant]:
    """Return all mutants of a lab's solution, in the order of its code."""
    return [*mutants_of(lab.solution.read_text(encoding="utf-8"))]


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yield all mutants of a module, in the order of its code.

    Args:
        source: the module's text.
    """
    tree, names = ast.parse(source), Counter[str]()
    for place, node in _nodes(tree):
        for field, value, after in _changes(node):
            before = getattr(node, field)
            old = _code(node)
            setattr(node, field, value)
            change = after or f"{old} -> {_code(node)}"
            text = ast.unparse(tree)
            setattr(node, field, before)
            name = f"{place}: {change}"
            names[name] += 1
            yield Mutant(name if names[name] == 1 else f"{name} ({names[name]})", text)


def _nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield each node of code within functions, with the function's name."""

    def walk(node: ast.AST, place: str) -> Iterator[tuple[str, ast.AST]]:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{place}.{node.name}" if place else node.name
        elif isinstance(node, ast.Assert | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.Raise) or (isinstance(node, ast.stmt) and _is_docstring(node)):
            # Words are free; whether the error is raised is not.
            return
        yield place or "module", node
        skipped = {"annotation", "returns", "decorator_list"}
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if field not in skipped and isinstance(child, ast.AST):
                    yield from walk(child, place)

    yield from walk(tree, "")


def _changes(node: ast.AST) -> Iterator[tuple[str, object, str]]:
    """Yield a field of the node, its new value, and the new code if it is not the node's own."""
    match node:
        case ast.Compare(ops=operations):
            for index, operation in enumerate(operations):
                other = _COMPARISONS[type(operation)]()
                yield "ops", [*operations[:index], other, *operations[index + 1 :]], ""
        case ast.BoolOp():
            yield "op", ast.And() if isinstance(node.op, ast.Or) else ast.Or(), ""
            for index in range(len(node.values)):
                yield "values", node.values[:index] + node.values[index + 1 :], ""
        case ast.BinOp() if type(node.op) in _OPERATORS and not isinstance(
            node.left, ast.JoinedStr
        ):
            yield "op", _OPERATORS[type(node.op)](), ""
        case ast.UnaryOp(op=ast.Not()):
            yield "op", ast.UAdd(), ""
        case ast.Constant(value=bool() as value):
            yield "value", not value, ""
        case ast.Constant(value=int() as value):
            yield "value", value + 1, ""
        case ast.Constant(value=str() | bytes() as value) if value:
            yield "value", value[:0], ""
        case ast.If() | ast.IfExp() | ast.While():
            for value in (True, False) if not isinstance(node.test, ast.Constant) else ():
                yield "test", ast.Constant(value), f"{_code(node.test)} -> {value}"
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield "value", ast.Constant(None), ""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and not isinstance(node, ast.Module):
            yield from _blocks(field, block)


def _blocks(field: str, block: list[ast.stmt]) -> Iterator[tuple[str, object, str]]:
    for index, statement in enumerate(block):
        rest = block[index + 1 :]
        before = block[:index]
        if isinstance(statement, ast.Break):
            yield field, [*before, ast.Continue(), *rest], "break -> continue"
        elif isinstance(statement, ast.Continue):
            yield field, [*before, ast.Pass(), *rest], "no continue"
        elif isinstance(statement, (*_SIMPLE, ast.Raise)) and not _is_docstring(statement):
            yield field, [*before, ast.Pass(), *rest], f"no {_code(statement)}"
        if rest and _matters(statement, rest[0]):
            swapped = [*before, rest[0], statement, *rest[1:]]
            yield field, swapped, f"{_code(rest[0])} before {_code(statement)}"


def _matters(first: ast.stmt, second: ast.stmt) -> bool:
    """Tell whether the order of two statements can matter: one writes what the other mentions."""
    if not all(isinstance(s, _SIMPLE) and not _is_docstring(s) for s in (first, second)):
        return False
    writes, mentions = zip(*map(_variables, (first, second)), strict=True)
    return bool(writes[0] & mentions[1] or writes[1] & mentions[0])


def _variables(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Return the variables that a statement writes, and all that it mentions."""
    nodes = [n for n in ast.walk(statement) if isinstance(n, ast.Name | ast.Attribute)]
    mentions = {ast.unparse(node) for node in nodes} - {"self", *dir(builtins)}
    if any(isinstance(node, ast.Call) for node in ast.walk(statement)):
        # A method may change what it is called on, and its arguments.
        return mentions, mentions
    return {ast.unparse(node) for node in nodes if isinstance(node.ctx, ast.Store)}, mentions


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _code(node: ast.AST) -> str:
    """Return the first line of a node's code."""
    first, _, rest = ast.unparse(node).partition("\n")
    return first if not rest else f"{first} ..."


def survivors(
    chosen: Sequence[tuple[Lab, Sequence[Mutant]]], listed: Mapping[str, Collection[str]]
) -> list[str]:
    """Run mutants of labs.

    Args:
        chosen: labs, with the mutants to run.
        listed: by number of the lab, the names of mutants that are as right as the solution.

    Returns:
        A line for each mutant that earns all points and is not listed, or is listed and does not.
    """
    faults, names = [], []
    with TemporaryDirectory(prefix="solution-mutants-") as scratch:
        questions: list[Question] = []
        for lab, some in chosen:
            for mutant in some:
                path = Path(scratch, f"{lab.number}-{len(names)}.py")
                path.write_text(mutant.source, encoding="utf-8")
                questions.append(Question(lab, str(path), _is_alive))
                names.append((lab.number, mutant.name))
        # A mutant is dead at its first failure.
        with mock.patch.dict(os.environ, {"PYTEST_ADDOPTS": "-x"}):
            for (number, name), alive in zip(names, answers(ROOT, questions), strict=True):
                if bool(alive) != (name in listed.get(number, ())):
                    fault = "has all points" if alive else "is listed, but fails a test"
                    faults.append(f"{number} {name}: {fault}")
    return faults


def _is_alive(outcome: Outcome) -> Iterator[str]:
    if all(result["kind"] == ResultKind.PASSED for result in outcome["tests"].values()):
        yield "alive"


def list_faults(number: str, every: Sequence[Mutant], listed: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the list of a lab: a name that no mutant has, or too many."""
    for name in sorted({*listed} - {mutant.name for mutant in every}):
        yield f"{number} {name}: is listed, but no mutant has this name"
    if len(listed) > MOST_EQUIVALENT * len(every):
        yield f"{number}: {len(listed)} of {len(every)} mutants are listed; at most 5% may be"


def read_equivalent() -> dict[str, list[str]]:
    """Return the names of the listed mutants, by number of the lab."""
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    numbers = sorted({row["lab"] for row in rows})
    return {number: [row["name"] for row in rows if row["lab"] == number] for number in numbers}


def main() -> int:
    """Run mutants of the labs named; return 0 if each of them is dead or listed."""
    labs = {lab.number: lab for lab in find_labs(ROOT) if lab.hunt is None}
    parser = argparse.ArgumentParser(
        description="Change the labs' solutions in one place, and see whether the tests notice.",
        epilog="The exit code is 1 if a mutant has 100 points that is not in equivalent.toml.",
    )
    parser.add_argument("labs", nargs="*", metavar="NN", help="number of a lab (default: all)")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N of each lab")
    parser.add_argument("--list", action="store_true", help="print the mutants, do not run them")
    options = parser.parse_args()
    if unknown := {*options.labs} - {*labs}:
        parser.error(f"there is no lab {min(unknown)}; there are {', '.join(labs)}")
    if options.first is not None and options.first < 1:
        parser.error(f"--first is {options.first}, but must be at least 1")
    listed, faults, chosen = read_equivalent(), [], []
    for number in options.labs or labs:
        every = solution_mutants(labs[number])
        faults += list_faults(number, every, listed.get(number, ()))
        chosen.append((labs[number], every[: options.first]))
    if options.list:
        lines = [f"{lab.number} {mutant.name}" for lab, some in chosen for mutant in some]
        print(*lines, sep="\n")
        return 0
    faults += survivors(chosen, listed)
    count = sum(len(some) for _, some in chosen)
    print(f"{count} mutants, {len(faults)} faults", *faults, sep="\n  ")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
