"""The tests that a lab's score expects, read from `test_lab.py` without running it.

The list is read from the source, not from pytest's run. So a test that is skipped, deselected or
missing counts as not passed.
"""

import ast
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import LabFolderError

PROPERTY_PREFIX = "test_property_"


@dataclass(frozen=True)
class Test:
    """One test function of a lab.

    Attributes:
        name: the function's name.
        rule: the contract it pins, in words (its docstring).
        task: the task it belongs to, or None for a `given` test.
        points: the points it earns; 0 for a `given` test.
        timeout: its own time limit in seconds, if it has one.
        marks: the names of all its marks.
        needs: the platform's feature that it needs, see `labkit.running.platform`; "" for none.
    """

    name: str
    rule: str
    task: int | None
    points: int
    timeout: float | None
    marks: frozenset[str]
    needs: str = field(default="", kw_only=True)

    @property
    def given(self) -> bool:
        """Whether the test is a demonstration, which is not graded."""
        return "given" in self.marks


def read_manifest(path: Path) -> tuple[Test, ...]:
    """Return the tests of `path` in the order of the file.

    Raises:
        LabFolderError: the file is missing or does not parse.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except OSError:
        raise LabFolderError(f"{path} is missing: a lab needs its tests") from None
    except SyntaxError as error:
        raise LabFolderError(f"{path} line {error.lineno}: {error.msg}") from None
    return tuple(
        _read_test(node)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def _read_test(node: ast.FunctionDef) -> Test:
    marks: dict[str, object] = {}
    for decorator in node.decorator_list:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not ast.unparse(call).startswith("pytest.mark."):
            continue
        has_value = isinstance(decorator, ast.Call) and decorator.args
        marks[ast.unparse(call).rpartition(".")[2]] = (
            _literal(decorator.args[0]) if has_value else None  # type: ignore[attr-defined]
        )
    task, points, timeout = marks.get("task"), marks.get("points"), marks.get("timeout")
    return Test(
        name=node.name,
        rule=" ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()),
        task=task if isinstance(task, int) else None,
        points=points if isinstance(points, int) else 0,
        timeout=float(timeout) if isinstance(timeout, int | float) else None,
        marks=frozenset(marks),
        needs=str(marks.get("needs") or ""),
    )


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
