"""Each hostile submission earns what its honest work earns, harms no other, and leaves nothing."""

import time

import pytest
from cheats import CHEATS, handed_in
from walled import Grader

from labkit.isolation import isolated_run, meter

# Those that try the walls which a container has instead of bubblewrap's.
IN_CONTAINER = """
changes_calls eats_disk exit_in_call forks linked_results mounts network own_answer signals
reads_environment reads_processes reads_solution runs_programs thread_bomb walks_frames
""".split()  # noqa: SIM905
# Those that end at a limit, each with this one only, so that a busy machine changes nothing.
LIMITS = {
    "closes_pipe": (meter, "_SLEEP_SECONDS", 0.5),
    "sleeps": (meter, "_SLEEP_SECONDS", 0.5),
    "spins": (isolated_run, "TEST_LIMIT", 0.3),
}
ALL = [(earns, cheat) for earns, found in CHEATS.items() for cheat in found]


@pytest.fixture(scope="module")
def grader(walled, worker_root):
    """Grades in one mode; `grader.before` is the grade of the solution before all cheats."""
    found = Grader(walled, worker_root)
    found.before = found.honest()
    return found


def test_there_are_enough_of_them():
    assert len(ALL) >= 25
    assert {cheat for _, cheat in ALL} >= {*IN_CONTAINER, *LIMITS}


def test_what_honest_work_earns(grader):
    assert b'"score": 100,' in grader.before
    # Of a cheat without its cheat.
    assert grader.grade(handed_in(""))["score"] == 40


@pytest.mark.parametrize(
    ("walled", "earns", "cheat"),
    [
        *(("sandbox", *row) for row in ALL),
        *(("container", *row) for row in ALL if row[1] in IN_CONTAINER),
    ],
    indirect=["walled"],
)
def test_earns_what_its_honest_work_earns(grader, earns, cheat, monkeypatch):
    with monkeypatch.context() as patch:
        if cheat in LIMITS:
            patch.setattr(*LIMITS[cheat])
        found = grader.grade(handed_in(CHEATS[earns][cheat]))
    assert found["score"] == earns, found["tests"]
    assert len(found["tests"]) == 8
    # The solution still gets the same grade, in the same slot.
    assert grader.honest() == grader.before
    # The kernel ends what is left in a sandbox, a moment later.
    deadline = time.monotonic() + 60
    while left := grader.processes():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
