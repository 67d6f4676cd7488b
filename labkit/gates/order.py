"""Gate: the tasks of a lab can be passed one after the other.

`tests/attempts/NN/after_task_K.py` is lab NN as a student has it after task K: it lacks the code
that later tasks add, in functions of their own or within others. All tests up to task K must pass.
"""

import ast
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from labkit.course.lab import Lab
from labkit.errors import LabFolderError
from labkit.gates.attempts import folder_of
from labkit.gates.finding import Finding, of_labs
from labkit.gates.lab_runs.runs import Outcome, Question, answers
from labkit.running.result_kind import ResultKind


@of_labs
def tasks_pass_in_order(root: Path, labs: list[Lab]) -> Iterator[Finding]:
    """Check that no test of a task needs the code of a later task.

    The stages of a lab are run when all of them exist, and none has more code than it should.
    """
    jobs: list[tuple[Lab, int, Path]] = []
    for lab in labs:
        stages = [
            (lab, task.number, folder_of(root, lab) / f"after_task_{task.number}.py")
            for task in lab.tasks[:-1]
        ]
        faults = [
            Finding(str(path.relative_to(root)), fault)
            for _, done, path in stages
            for fault in _faults(lab, done, path)
        ]
        yield from faults
        jobs += [] if faults else stages
    questions = [Question(lab, str(path), partial(_wrong, lab, done)) for lab, done, path in jobs]
    for (_, _, path), wrong in zip(jobs, answers(root, questions), strict=True):
        for message in wrong:
            yield Finding(str(path.relative_to(root)), message)


def _faults(lab: Lab, done: int, path: Path) -> list[str]:
    """Return the faults of a stage that show without a run."""
    if not path.exists():
        return [f"is missing: the lab with tasks 1 to {done} done and no more"]
    return _written_too_early(lab, done, path)


def _wrong(lab: Lab, done: int, outcome: Outcome) -> list[str]:
    faults: list[str] = []
    results = {
        name: result["kind"] == ResultKind.PASSED for name, result in outcome["tests"].items()
    }
    for test in lab.tests:
        if (test.task or 0) <= done and not results.get(test.name, False):
            message = outcome["tests"].get(test.name, {"message": "it did not run"})["message"]
            faults.append(f"{test.name} fails with tasks 1 to {done} done: {message}")
    if all(results.get(test.name) for test in lab.tests if (test.task or 0) > done):
        faults.append(f"no test of a later task fails, so more than task {done} is done")
    return faults


def _written_too_early(lab: Lab, done: int, path: Path) -> list[str]:
    """Return the functions of later tasks that do not raise as in the starter."""
    now = _tasks_that_wait(lab, path)
    return [
        f"{name} is of task {task}, and must still raise NotImplementedError as in the starter"
        for name, task in _tasks_that_wait(lab, lab.pristine_starter).items()
        if task > done and now.get(name) != task
    ]


def _tasks_that_wait(lab: Lab, path: Path) -> dict[str, int]:
    """Return the functions (`name` or `Class.name`) that wait for a task, and which."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise LabFolderError(f"{path} does not parse: {error}") from None
    tasks: dict[str, int] = {}
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for function in inner:
            match = re.search(
                rf"NotImplementedError\('{lab.label} task (\d+)", ast.unparse(function)
            )
            if match and isinstance(function, ast.FunctionDef):
                tasks[prefix + function.name] = int(match[1])
    return tasks
