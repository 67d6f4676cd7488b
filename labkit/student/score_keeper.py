"""The pytest plugin that remembers a student's run: its score, its diagnosis, which labs pass.

`labkit.running.plugin` calls these hooks; without them it remembers nothing.
"""

from labkit.course.lab import Lab
from labkit.running.score import LabRun
from labkit.running.under_test import root_of
from labkit.student.progress import Diagnosis, Progress


def pytest_lab_passes(lab: Lab) -> bool:
    """Answer from the scores of earlier runs."""
    try:
        return Progress(root_of(lab)).passes(lab)
    except OSError:
        return False


def pytest_lab_finished(run: LabRun) -> str | None:
    """Remember the score of a whole run of `starter.py`, or the tasks of a partial run.

    Returns:
        The message if the record cannot be saved, or None.
    """
    if run.implementation.kind != "starter" or run.waits_for:
        return None
    unfinished = {test.task for test in run.tests if test.task and not run.passed(test)}
    try:
        progress = Progress(root_of(run.lab))
        if run.complete:
            progress.save_score(run.lab, run.score, unfinished, run.most)
        else:
            ran = {test.task for test in run.tests if test.task and test.name in run.results}
            progress.save_tasks(run.lab, ran - unfinished, ran & unfinished)
        progress.save_diagnosis(run.lab, _diagnosis(run))
        if run.hunted is not None:
            killed = run.hunted.kills
            wrong = (code.name for code in run.lab.pool.wrong())
            progress.save_alive(run.lab, (name for name in wrong if not killed.get(name)))
    except OSError as error:
        return f"The score is not saved, so `make progress` will not show it: {error.strerror}."
    return None


def _diagnosis(run: LabRun) -> Diagnosis | None:
    mistake = run.mistake
    if mistake is None:
        return None
    return Diagnosis(mistake.name, mistake.task, mistake.symptom, mistake.hint)
