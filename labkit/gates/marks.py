"""Gate: every lab test can be scored, and none is switched off."""

import ast
from collections import Counter
from pathlib import Path

from labkit.course.lab import Lab
from labkit.course.manifest import PROPERTY_PREFIX
from labkit.gates.finding import Finding, of_labs
from labkit.gates.pools import exemptions
from labkit.running.platform import NEEDS

_ALLOWED_MARKS = {"task", "points", "given", "timeout", "needs"}
_ALLOWED_IMPORTS = {"labkit.testing", "mini_vllm.text.events", "pytest"}
MAX_POINTS = 15


@of_labs
def tests_are_marked(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check marks, points (100 in all, properties 20-30, none over 15), rules and imports."""
    return exemptions("marks", labs) + [
        Finding(f"{lab.name}/test_lab.py", message) for lab in labs for message in _check(lab)
    ]


def _check(lab: Lab) -> list[str]:
    faults: list[str] = []
    tasks = {task.number for task in lab.tasks}
    for test in lab.tests:
        for mark in sorted(test.marks - _ALLOWED_MARKS):
            faults.append(f"{test.name}: mark {mark!r} has no place in a lab; every test runs")
        if "needs" in test.marks and test.needs not in NEEDS:
            faults.append(f"{test.name}: needs {test.needs!r}; a test may need {', '.join(NEEDS)}")
        if not test.rule:
            faults.append(f"{test.name}: no docstring; it is the rule that the report shows")
        if test.given and (test.points or test.task):
            faults.append(f"{test.name}: a given test has neither points nor task")
        if not test.given and test.task not in tasks:
            faults.append(f"{test.name}: task {test.task} is not in lab.toml")
        if not (test.given or lab.hunt) and not 1 <= test.points <= MAX_POINTS:
            faults.append(f"{test.name}: {test.points} points; a test has 1 to {MAX_POINTS}")
    names = Counter(test.name for test in lab.tests)
    faults += [
        f"{name} is defined twice; the first never runs" for name in names if names[name] > 1
    ]
    total = sum(test.points for test in lab.tests)
    if total != 100:
        faults.append(f"the points add up to {total}, not 100")
    properties = sum(t.points for t in lab.tests if t.name.startswith(PROPERTY_PREFIX))
    if lab.hunt is None and not 20 <= properties <= 30:
        faults.append(f"{PROPERTY_PREFIX}* have {properties} points together; 20 to 30 is the rule")
    return faults + _forbidden(lab.test_file)


def _forbidden(path: Path) -> list[str]:
    faults: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "."]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and node.attr in ("skip", "xfail", "importorskip"):
            faults.append(
                f"line {node.lineno}: pytest.{node.attr} scores 0; write a test that runs"
            )
            continue
        else:
            continue
        for module in modules:
            ours = module.split(".")[0] in ("labkit", "mini_vllm", "solution", "starter")
            if ours and module not in _ALLOWED_IMPORTS:
                message = "tests see the lab through the `lab` fixture and may not import"
                faults.append(f"line {node.lineno}: {message} {module}")
    return faults
