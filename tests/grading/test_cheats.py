import os
import shutil

import pytest
from walled import CHEATS, Grader, earns

from labkit.isolation import isolated_run as run
from labkit.isolation import meter

# Those that try the walls which a container has instead of bubblewrap's.
IN_CONTAINER = """
changes_calls eats_disk exit_in_call forks linked_results mounts network own_answer signals
reads_environment reads_processes reads_solution runs_programs thread_bomb walks_frames
""".split()  # noqa: SIM905
HONEST_PASS_THROUGH = b"""
class Pairs:
    held = ""

    def feed(self, text):
        return text

    def flush(self):
        return ""
"""

# By mode, the grade of the solution before all cheats.
HONEST = {}

needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None and not os.environ.get("CI"), reason="needs bubblewrap"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(autouse=True)
def short_limits(monkeypatch):
    monkeypatch.setattr(run, "TEST_LIMIT", 1.0)
    monkeypatch.setattr(meter, "_SLEEP_SECONDS", 2.0)


@pytest.fixture(scope="module")
def sandboxed():
    with Grader("sandbox") as grader:
        HONEST["sandbox"] = grader.honest()
        yield grader


@pytest.fixture(scope="module")
def contained():
    with Grader("container") as grader:
        HONEST["container"] = grader.honest()
        yield grader


def check(grader, cheat):
    found = grader.grade(cheat.read_bytes())
    assert found["score"] == earns(cheat), found["tests"]
    assert len(found["tests"]) == 8
    # The one before it ended in the same way.
    assert grader.honest() == HONEST[grader.sandbox.mode]


def test_there_are_enough_of_them():
    assert len(CHEATS) >= 25


@needs_bwrap
def test_the_honest_one_earns_everything(sandboxed):
    assert b'"score": 100,' in HONEST["sandbox"]


@needs_bwrap
def test_what_a_cheat_without_its_cheat_earns(sandboxed):
    assert sandboxed.grade(HONEST_PASS_THROUGH)["score"] == 40


@needs_bwrap
@pytest.mark.parametrize("cheat", CHEATS, ids=lambda path: path.stem)
def test_earns_what_its_honest_work_earns(sandboxed, cheat):
    check(sandboxed, cheat)


@needs_root
@pytest.mark.parametrize(
    "cheat", [path for path in CHEATS if path.stem in IN_CONTAINER], ids=lambda path: path.stem
)
def test_earns_it_in_a_container_too(contained, cheat):
    check(contained, cheat)


@needs_bwrap
def test_leaves_no_process_behind(sandboxed):
    for name in ("forks", "runs_programs", "closes_pipe"):
        sandboxed.grade(next(path for path in CHEATS if path.stem == name).read_bytes())
    left = [
        name
        for name in os.listdir("/proc")
        if name.isdigit() and f"\0{sandboxed.sandbox.root.path}\0" in _command(name)
    ]
    assert left == []


def _command(process):
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read()
    except OSError:
        return ""
