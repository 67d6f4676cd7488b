from unittest.mock import Mock

import pytest
from made_grades import made_grade

from labkit.grading.progress_line import ProgressLine


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(1, "1 s"), (30, "30 s"), (300, "5 min"), (3 * 3600, "3.0 h")],
)
def test_the_time_left_is_that_of_what_was_graded_so_far(seconds, told, capsys):
    """Of 40, a ledger has 20, and two of the other 20 take as long as is left for 18 of them."""
    now = 0.0
    line = ProgressLine(lambda: now)
    for done in range(1, 21):
        line(done, 40, made_grade("", []), 20)
    now = seconds / 18 * 3
    line(21, 40, made_grade("", []), 19)
    line(22, 40, made_grade("", []), 18)
    line(40, 40, made_grade("", []), 0)
    assert capsys.readouterr().err.splitlines() == [
        *(f"{done} of 40 graded" for done in range(2, 21, 2)),
        f"22 of 40 graded, about {told} left",
        "40 of 40 graded",
    ]


def test_in_a_terminal_it_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line = ProgressLine(lambda: 0.0)
    for done in (1, 2, 3):
        line(done, 3, made_grade("", []), 3 - done)
    first, second, third = capsys.readouterr().err[1:].split("\r")
    assert (first, third) == ("1 of 3 graded", f"{'3 of 3 graded':<{len(second)}}\n")


@pytest.mark.parametrize(
    "stream", [None, Mock(isatty=Mock(return_value=False), write=Mock(side_effect=BrokenPipeError))]
)
def test_where_nobody_can_be_told_grading_goes_on(stream, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream)
    ProgressLine(lambda: 0.0)(1, 1, made_grade("", []), 0)
