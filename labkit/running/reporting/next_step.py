"""The next step after a run: one line, with the command."""

import os
import re
from collections.abc import Sequence

from labkit.course.lab import Lab
from labkit.course.tracks import track_done
from labkit.running.reporting.explain import GradedTest, graded_tests
from labkit.running.reporting.groups import first_open_task
from labkit.running.reporting.hunted import first_survivor, void_test
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun


def next_step(run: LabRun, labs: Sequence[Lab]) -> str:
    """Return the next step; "" after a run of a reference.

    Args:
        run: a finished run.
        labs: the labs of the ladder, in order.
    """
    if run.implementation.is_reference or not run.results:
        return ""
    if run.waits_for:
        return f"{run.waits_for} first: make lab N={run.waits_for.removeprefix('lab-')}"
    tests = graded_tests(run)
    task = first_open_task(run.lab, tests)
    if task is None:
        return _after(run, labs) if run.complete else _more(run)
    missed = [test for test in tests if test.task == task and test.ran and not test.passed]
    if any(test.kind is ResultKind.LOAD for test in missed):
        return f"fix the error shown above, then {command(run)}"
    if (void := void_test(run)) is not None:
        return f"fix {void}, which is void, then {command(run)}"
    if (survivor := first_survivor(run)) is not None:
        hint = f"make hint N={run.lab.number} T={survivor.target.task}"
        return f'kill "{survivor.symptom.rstrip(".")}" ({hint})'
    needed_by = ""
    if (blocker := _blocker(run.lab, task, missed)) is not None:
        needed_by = f", which task {task} needs"
        task, missed = blocker, [test for test in missed if test.kind is ResultKind.UNWRITTEN]
    # A choice of tests may earn no points although the lab is far advanced.
    is_begin = run.score == 0 and (run.complete or _is_untouched(run))
    if is_begin and not any(test.kind is ResultKind.RAISED for test in missed):
        readme = os.path.relpath(run.lab.readme)
        return f"read {readme}, then work on task {task}{needed_by}: {command(run, task)}"
    verb = "write" if all(test.kind is ResultKind.UNWRITTEN for test in missed) else "fix"
    hint = f"make hint N={run.lab.number} T={task}"
    return f"{verb} task {task}{needed_by}, then {command(run, task)} (stuck? {hint})"


def _blocker(lab: Lab, task: int, missed: Sequence[GradedTest]) -> int | None:
    """Return the first earlier task with an unwritten part for which tests of a task wait.

    If only some tests ran, those of the earlier task may not have run.
    """
    unwritten = [test.message for test in missed if test.kind is ResultKind.UNWRITTEN]
    named = {int(number) for text in unwritten for number in re.findall(r"\btask (\d+)\b", text)}
    return min(named.intersection(lab.blockers(task)), default=None)


def _is_untouched(run: LabRun) -> bool:
    """Return whether the file under test is the starter as it was handed out."""
    try:
        return run.implementation.path.read_bytes() == run.lab.pristine_starter.read_bytes()
    except OSError:
        return False


def _more(run: LabRun) -> str:
    """Return the step after a partial run that passes: the next task, or the whole lab."""
    ran = {test.task for test in run.tests if test.name in run.results and test.task}
    after = [task.number for task in run.lab.tasks if len(ran) == 1 and task.number > max(ran)]
    if after:
        return f"task {after[0]}: {command(run, after[0])}"
    return f"the whole lab: {command(run)}"


def command(run: LabRun, task: int | None = None) -> str:
    """Return the command that runs the lab, or one task of it, on the same code again."""
    if run.implementation.kind == "starter":
        return f"make lab N={run.lab.number}" + (f" T={task}" if task is not None else "")
    return "the same command" + (f" with --lab-task {task}" if task is not None else "")


def _after(run: LabRun, labs: Sequence[Lab]) -> str:
    left = [lab for lab in labs if lab != run.lab and lab.name not in run.passing]
    if not left:
        return "see it work: make demo, then LAB_IMPL=starter make serve"
    lab = left[0]
    if lab.place < run.lab.place:
        # This lab was chosen before its turn: go on with the first that builds on it.
        lab = next((other for other in left if run.lab.label in other.prerequisites), lab)
    readme = os.path.relpath(lab.readme)
    go_on = f"{lab.label}, {lab.title}: read {readme}, then make lab N={lab.number}"
    if lab != left[0]:
        go_on += f" (in the course's order: make lab N={left[0].number})"
    done = track_done(labs, lab) if lab == left[0] else ""
    return f"{done}; to continue, {go_on}" if done else go_on
