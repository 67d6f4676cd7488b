import re
from contextlib import suppress
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
    line = ProgressLine(40, lambda: now)
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


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_in_a_terminal_it_is_a_bar_with_the_time_left_and_the_cursor_comes_back(
    error, capsys, monkeypatch
):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    now = 0.0
    with suppress(KeyboardInterrupt), ProgressLine(4, lambda: now) as line:
        for done in (1, 2, 3):
            now = 60.0 * done
            line(done, 4, made_grade("", []), 4 - done)
        if error is not None:
            raise error
        line(4, 4, made_grade("", []), 0)
    said = capsys.readouterr().err
    frames = [" ".join(re.sub(r"\x1b\[[0-9?;]*[a-zA-Z]|\u2501|\u2578|\u257a", " ", frame).split())
              for frame in said.split("\r") if " graded" in frame]  # fmt: skip
    last = "3 of 4 graded about 60 s left" if error else "4 of 4 graded"
    expected = ["0 of 4 graded", "1 of 4 graded", "2 of 4 graded about 2 min left"]
    assert [*dict.fromkeys([*expected, "3 of 4 graded about 60 s left", last])] == [
        *dict.fromkeys(frames)
    ]
    assert said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l")


@pytest.mark.parametrize(
    "stream",
    [
        None,
        *(
            Mock(isatty=Mock(return_value=is_terminal), write=Mock(side_effect=BrokenPipeError))
            for is_terminal in (False, True)
        ),
    ],
)
def test_where_nobody_can_be_told_grading_goes_on(stream, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream)
    with ProgressLine(1, lambda: 0.0) as line:
        line(1, 1, made_grade("", []), 0)
