"""Each hostile submission earns what its honest work earns, harms no other, and leaves nothing."""

import os
import time

import pytest
from cheats import CHEATS, handed_in
from cheats_answers import SLOW
from cheats_walls import WALLS
from walled import Grader, hurried

# Those that try the walls which a container has instead of bubblewrap's.
SOME = """
changes_calls eats_disk exit_in_call forks linked_results mounts network own_answer signals
signals_always reads_environment reads_processes reads_solution runs_programs thread_bomb
walks_frames
""".split()  # noqa: SIM905
IN_CONTAINER = {*SOME, *WALLS}
# Those that end at a limit, which is short for them: late or not, they earn nothing.
LATE = ("closes_pipe", "sleeps", "spins", *SLOW)
ALL = [(earns, cheat) for earns, found in CHEATS.items() for cheat in found]


@pytest.fixture(scope="module")
def grader_in(need, worker_root):
    """A grader in a mode; the grade of the solution is the same before and after all cheats."""
    made = {}

    def grader_in(mode):
        if mode not in made:
            made[mode] = Grader(need(mode), worker_root)
            made[mode].before = made[mode].honest()
        return made[mode]

    yield grader_in
    assert [one.honest() for one in made.values()] == [one.before for one in made.values()]


def test_there_are_enough_of_them():
    assert len(ALL) >= 80
    assert {cheat for _, cheat in ALL} >= {*IN_CONTAINER, *LATE}


@pytest.mark.parametrize("mode", ["sandbox", "container"])
def test_what_honest_work_earns(grader_in, mode):
    grader = grader_in(mode)
    assert b'"score": 100,' in grader.before
    # Of a cheat without its cheat.
    assert grader.grade(handed_in(""))["score"] == 40


@pytest.mark.parametrize(
    ("mode", "earns", "cheat"),
    [
        *(("sandbox", *row) for row in ALL),
        *(("container", *row) for row in ALL if row[1] in IN_CONTAINER),
    ],
)
def test_earns_what_its_honest_work_earns(grader_in, mode, earns, cheat, monkeypatch):
    grader = grader_in(mode)
    # Later, others on this machine may become users that were free again.
    grader.sandbox.users.clear()
    with monkeypatch.context() as patch:
        if cheat in LATE:
            hurried(patch)
        found = grader.grade(handed_in(CHEATS[earns][cheat]))
    assert found["score"] == earns, found["tests"]
    assert len(found["tests"]) == 8
    if os.environ.get("SOAK"):
        # Not only after all of them, in the same slot; here it is known who did the harm.
        assert grader.honest() == grader.before
    # The kernel ends what is left in a sandbox, a moment later.
    deadline = time.monotonic() + 60
    while left := grader.processes():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
