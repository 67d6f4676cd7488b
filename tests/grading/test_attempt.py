"""What the trusted side may spend on one submission."""

import resource
import time
from unittest.mock import Mock

import pytest
from made_grades import made_grade

from labkit.errors import InfrastructureError
from labkit.grading import slot as module
from labkit.grading.reading.submission import Submission
from labkit.grading.slot import Slot, Stopped
from labkit.publish.gradescope import grade_one


def limit_of_seconds():
    return resource.getrlimit(resource.RLIMIT_CPU)[0]


@pytest.fixture
def slot():
    """A slot that is ready for the next submission."""
    return Mock(spec=Slot, sandbox=None, check=Mock(return_value=None))


def attempt(slot):
    return Slot.attempt(slot, None, None)


@pytest.fixture
def grade(monkeypatch):
    """What grades in its place, to be defined."""
    monkeypatch.setattr(module, "grade", Mock())
    return module.grade


def test_each_grading_has_its_own_seconds_and_nothing_else_has_a_limit(slot, grade):
    before, started = limit_of_seconds(), time.process_time()
    grade.side_effect = lambda *_: limit_of_seconds()
    assert started < attempt(slot) - module.MOST_SECONDS < time.process_time() + 1
    assert limit_of_seconds() == before


@pytest.mark.parametrize(
    "error", [MemoryError(), KeyError("x" * 10**6), KeyboardInterrupt(), SystemExit(1)]
)
def test_whatever_it_raises_is_a_failure_of_this_grading(slot, grade, error, capsys):
    grade.side_effect = error
    assert attempt(slot) == f"{module.FAILED} ({type(error).__name__})"
    assert len(capsys.readouterr().err) < 5_000


def test_what_would_stop_every_grading_is_no_failure_of_one(slot, grade):
    grade.side_effect = OSError()
    slot.check = Mock(side_effect=InfrastructureError("no sandbox"))
    with pytest.raises(InfrastructureError, match="no sandbox"):
        attempt(slot)
    grade.side_effect = Stopped()
    with pytest.raises(Stopped):
        attempt(slot)


def test_the_only_submission_is_graded_again_if_its_process_was_killed():
    killed, clean = (made_grade("ann", [], doubt=doubt) for doubt in ("it was killed", None))
    slot = Mock(attempt=Mock(side_effect=[killed, clean]))
    assert grade_one(slot, Submission("ann", "lab-90"), None) == clean
