"""The grader looks for common mistakes; what a submission does to that breaks nothing."""

import pytest
from walled import Grader

from labkit.grading import grader
from labkit.isolation import host

PROBE = '''
from labkit.testing import mistake


@mistake(task=1)
def other(lab):
    """Of a task that is right."""
    return True


@mistake(task=2)
def probed(lab):
    """It knows the probe.

    Look again.
    """
    calls = [("feed", "PROBE"), ("flush",)]
    return lab.script(lab.new("Pairs"), calls, watch="").outputs == ["", "x"]


@mistake(task=2)
def silent(lab):
    """Nothing comes out at the end."""
    return lab.call(lab.new("Pairs"), "flush") == ""
'''


# Says to whoever listens what nobody can read.
FLOOD = """
def flood():
    import os
    for end in range(3, 9):
        try:
            os.write(end, bytes(99))
        except OSError:
            pass
"""


@pytest.fixture
def found(sandbox_in, tiny, tiny_lab, monkeypatch):
    """Grade the solution without its flush; it does something of its own when it is probed."""
    monkeypatch.setattr(grader, "MOST_SECONDS", 0.1)
    monkeypatch.setattr(host, "_TICK_SECONDS", 0.02)
    (tiny_lab.path / "course/mistakes.py").write_text(PROBE)
    dropping = tiny_lab.solution.read_text().replace(
        "return rest", "return self.__dict__.get(1, '')"
    )
    feed = "text = self._held + text"
    assert "get(1" in dropping
    assert feed in dropping

    def of(act):
        source = dropping.replace(feed, f"if text == 'PROBE': {act}\n        {feed}")
        return Grader(sandbox_in("trust"), tiny).grade(f"{source}{FLOOD}".encode())

    return of


@pytest.mark.parametrize(
    ("act", "looks_like"),
    [
        ("pass", "silent"),
        # It may as well look like another mistake.
        ("self.__dict__[1] = 'x'; return ''", "probed"),
        ("raise KeyError", "silent"),
        ("return {1, 2}", "silent"),
        # Who does not answer in time, or at all, is asked no more.
        ("__import__('os')._exit(0)", None),
        ("[0 for _ in iter(int, 1)]", None),
        ("flood()", None),
    ],
)
def test_a_probe_says_what_it_looks_like_and_moves_no_points(found, act, looks_like):
    first, again = found(act), found(act)
    assert first == again
    assert first["looks_like"] == looks_like
    assert first["score"] == 55
    assert {test["kind"] for test in first["tests"]} == {"passed", "assertion"}
