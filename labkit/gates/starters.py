"""Gates: the starter is the solution without its bodies, and `starter.py` is as handed out."""

import ast
import os
from pathlib import Path

from labkit.course.lab import PRISTINE, Lab
from labkit.gates.finding import Finding, of_labs
from labkit.gates.pools import exemptions


@of_labs
def starter_is_pristine(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check that `starter.py` equals `starter.py.orig`.

    In a student's clone the difference is the point, so it is a note. In CI it is a finding.
    """
    findings: list[Finding] = []
    in_ci = bool(os.environ.get("CI"))
    for lab in labs:
        if not lab.pristine_starter.exists():
            message = "is missing: `make reset` copies it. Copy the starter there"
            findings.append(Finding(f"{lab.name}/{PRISTINE}", message))
        elif not lab.starter.exists():
            message = f"is missing: make reset N={lab.number} restores it"
            findings.append(Finding(f"{lab.name}/starter.py", message, is_note=not in_ci))
        elif lab.starter.read_bytes() != lab.pristine_starter.read_bytes():
            message = "is edited; the other gates read starter.py.orig. Maintainers keep both equal"
            findings.append(Finding(f"{lab.name}/starter.py", message, is_note=not in_ci))
    return findings


@of_labs
def starter_matches_solution(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check that starter and solution have equal public names, signatures and docstrings."""
    return exemptions("signatures", labs) + [
        Finding(lab.name, message)
        for lab in labs
        if lab.pristine_starter.exists() and lab.solution.exists()
        for message in _differences(lab)
    ]


def _differences(lab: Lab) -> list[str]:
    starter = _public_face(lab.pristine_starter)
    solution = _public_face(lab.solution)
    if lab.hunt is not None:
        for face in (starter, solution):
            for name in [name for name in face if name.startswith("test_")]:
                del face[name]
        solution = {name: solution[name] for name in solution if name in starter}
    differences = [
        f"{name} is in the starter only" for name in sorted(starter.keys() - solution.keys())
    ]
    differences += [
        f"{name} is in the solution only" for name in sorted(solution.keys() - starter.keys())
    ]
    for name in starter.keys() & solution.keys():
        for what, ours, theirs in zip(
            ("signature", "docstring"), starter[name], solution[name], strict=True
        ):
            if ours != theirs:
                differences.append(f"{name}: the {what} of starter and solution differ")
    return sorted(differences)


def _public_face(path: Path) -> dict[str, tuple[str, str]]:
    """Return name -> (signature, docstring) of all names that do not begin with an underscore."""
    face: dict[str, tuple[str, str]] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                if node.name == "__init__" or not node.name.startswith("_"):
                    decorators = " ".join(map(ast.unparse, node.decorator_list))
                    returns = ast.unparse(node.returns) if node.returns else ""
                    signature = f"{decorators}({ast.unparse(node.args)}) -> {returns}"
                    face[prefix + node.name] = (signature, ast.get_docstring(node) or "")
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bases = ", ".join(map(ast.unparse, node.bases))
                face[prefix + node.name] = (bases, ast.get_docstring(node) or "")
                visit(node.body, f"{node.name}.")
            elif isinstance(node, ast.Assign) and prefix:
                face.update({prefix + ast.unparse(t): (ast.unparse(node.value), "")
                             for t in node.targets})  # fmt: skip

    visit(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return face
