"""The pytest plugin that remembers: the score of a student's run, and so which labs pass.

`labkit.running.plugin` calls these hooks; it works without them and then remembers nothing.
"""

import pytest

from labkit.course.lab import Lab
from labkit.running.score import LabRun
from labkit.student.progress import Progress


def pytest_lab_passes(config: pytest.Config, lab: Lab) -> bool:
    """Answer from the scores of earlier runs."""
    return Progress(config.rootpath).passes(lab)


def pytest_lab_finished(config: pytest.Config, run: LabRun) -> None:
    """Remember the score of a whole run of `starter.py`."""
    if run.implementation.kind == "starter" and run.complete:
        Progress(config.rootpath).save_score(run.lab, run.score)
