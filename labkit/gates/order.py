"""Gate: the tasks of a lab can be passed one after the other.

For each task, the solution is cut back to what a student has after finishing it: functions that the
starter gives to a later task raise as in the starter. All tests up to that task must pass.
"""

import ast
import re
import tempfile
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.gates.finding import Finding
from labkit.gates.runs import run_all


def tasks_pass_in_order(root: Path) -> list[Finding]:
    """Check that no test of a task needs a function of a later task."""
    found: list[Finding] = []
    with tempfile.TemporaryDirectory() as scratch:
        jobs = [(lab, task.number) for lab in find_labs(root) for task in lab.tasks[:-1]]
        paths = [Path(scratch) / f"{lab.label}-task-{task}.py" for lab, task in jobs]
        for path, (lab, task) in zip(paths, jobs, strict=True):
            path.write_text(_cut_back(lab, task), encoding="utf-8")
        runs = [(lab, str(path)) for path, (lab, _) in zip(paths, jobs, strict=True)]
        for (lab, done), outcome in zip(jobs, run_all(root, runs), strict=True):
            for test in lab.tests:
                result = outcome.get("tests", {}).get(test.name, {"kind": "missing", "message": ""})
                if (test.task or 0) <= done and result["kind"] != "passed":
                    message = f"{test.name} fails with tasks 1 to {done} done: {result['message']}"
                    found.append(Finding(lab.name, message))
    return found


def _cut_back(lab: Lab, done: int) -> str:
    later = {name for name, task in _tasks_of_functions(lab).items() if task > done}
    source = lab.solution.read_text(encoding="utf-8")
    lines = source.splitlines()
    for name, node in reversed(_functions(source)):
        if name in later:
            start = node.body[0].lineno - 1
            body = f'{" " * node.body[0].col_offset}raise NotImplementedError("cut back: {name}")'
            lines[start : node.end_lineno] = [body]
    return "\n".join(lines) + "\n"


def _tasks_of_functions(lab: Lab) -> dict[str, int]:
    tasks: dict[str, int] = {}
    for name, node in _functions(lab.pristine_starter.read_text(encoding="utf-8")):
        if match := re.search(rf"NotImplementedError\('{lab.label} task (\d+)", ast.unparse(node)):
            tasks[name] = int(match[1])
    return tasks


def _functions(source: str) -> list[tuple[str, ast.FunctionDef]]:
    """Return (`name` or `Class.name`, node) of all functions, in the order of the file."""
    found: list[tuple[str, ast.FunctionDef]] = []
    for node in ast.parse(source).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found += ((prefix + f.name, f) for f in inner if isinstance(f, ast.FunctionDef))
    return found
