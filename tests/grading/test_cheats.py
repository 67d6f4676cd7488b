"""Each hostile submission earns what its honest work earns, harms no other, and leaves nothing."""

import time

import pytest
from walled import CHEATS, Grader, earns, handed_in

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


@pytest.fixture(scope="module")
def grader(walled, worker_root):
    """Grades in one mode; `grader.before` is the grade of the solution before all cheats."""
    found = Grader(walled, worker_root)
    found.before = found.honest()
    return found


def test_there_are_enough_of_them():
    assert len(CHEATS) >= 25
    assert {path.stem for path in CHEATS} >= {*IN_CONTAINER, *LIMITS}


def test_what_honest_work_earns(grader):
    assert b'"score": 100,' in grader.before
    # Of a cheat without its cheat.
    assert grader.grade(handed_in(""))["score"] == 40


@pytest.mark.parametrize(
    ("walled", "cheat"),
    [
        *(("sandbox", cheat) for cheat in CHEATS),
        *(("container", cheat) for cheat in CHEATS if cheat.stem in IN_CONTAINER),
    ],
    indirect=["walled"],
    ids=lambda value: getattr(value, "stem", value),
)
def test_earns_what_its_honest_work_earns(grader, cheat, monkeypatch):
    with monkeypatch.context() as patch:
        if cheat.stem in LIMITS:
            patch.setattr(*LIMITS[cheat.stem])
        found = grader.grade(handed_in(cheat.read_text()))
    assert found["score"] == earns(cheat), found["tests"]
    assert len(found["tests"]) == 8
    # The solution still gets the same grade, in the same slot.
    assert grader.honest() == grader.before
    # The kernel ends what is left in a sandbox, a moment later.
    deadline = time.monotonic() + 60
    while left := grader.processes():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
