import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_cohort
from tiny_cohort import (
    MODE,
    alive,
    assignments,
    cohort,
    give_up,
    gradings,
    real_cohort,
    saying,
    text,
)

from labkit.errors import InfrastructureError, UsageError
from labkit.grading import pool, slot
from labkit.grading.cohort import grade_all
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.isolation.sandbox import Sandbox, WorkerRoot

ROOT = Path(__file__).resolve().parents[2]
SOAK = bool(os.environ.get("SOAK"))
SIZE = 1_000 if SOAK else 16
JOBS = 2


@pytest.fixture
def tiny_assignments(tiny):
    return assignments(tiny)


def run(submissions, assignments, jobs=JOBS, **options):
    return grade_all(submissions, assignments, mode=MODE, jobs=jobs, **options)


def test_grades_are_those_of_one_by_one_however_many_jobs(tiny_assignments):
    work = cohort(tiny_assignments, 9)
    (assignment,) = tiny_assignments.values()
    with WorkerRoot() as root:
        alone = [grade(item, assignment, Sandbox(MODE, root), 100) for item in work]
    assert len({g.score for g in alone}) > 3
    assert text(run(work, tiny_assignments, 1)) == text(alone)
    assert text(run(work, tiny_assignments, 3)) == text(alone)


def test_equal_files_are_graded_once_and_each_student_has_a_grade(tiny_assignments):
    (first, second) = cohort(tiny_assignments, 2)
    work = [
        Submission(student, item.lab, item.sources)
        for student, item in [("ann", first), ("bob", second), ("cy", first), ("dan\n", first)]
    ]
    told = []
    grades = run(work, tiny_assignments, on_progress=lambda *news: told.append(news))
    assert [g.student for g in grades] == ["ann", "bob", "cy", "dan\\n"]
    assert replace(grades[0], student="") == replace(grades[2], student="")
    assert grades[0].score == 100 > grades[1].score
    assert gradings(tiny_assignments) == 2
    assert [news[:2] for news in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert sorted(text([news[2]]) for news in told) == sorted(text([one]) for one in grades)


def test_a_fault_is_graded_without_running_anything(tiny_assignments):
    (name,) = tiny_assignments
    (found,) = run([Submission("ann", name, {}, "it is a link")], tiny_assignments)
    assert (found.fault, found.score) == ("it is a link", 0)
    assert gradings(tiny_assignments) == 0


def test_no_submissions_are_no_grades(tiny_assignments):
    assert run([], tiny_assignments) == []


def test_what_is_in_the_ledger_is_not_graded_again(tiny_assignments, tmp_path):
    ledger = tmp_path / "grades.jsonl"
    work = cohort(tiny_assignments, 6)
    first = run(work[:3], tiny_assignments, ledger=ledger)
    lines = ledger.read_bytes()
    count = gradings(tiny_assignments)
    assert text(run(work[:3], tiny_assignments, ledger=ledger)) == text(first)
    assert gradings(tiny_assignments) == count
    assert ledger.read_bytes() == lines
    told = []
    both = run(work, tiny_assignments, ledger=ledger, on_progress=lambda *n: told.append(n[0]))
    assert text(both) == text(run(work, tiny_assignments))
    assert told == [1, 2, 3, 4, 5, 6]
    assert ledger.read_bytes().startswith(lines)


def test_changed_tests_are_a_regrade_that_keeps_the_old_lines(tiny, tmp_path):
    ledger = tmp_path / "grades.jsonl"
    before = assignments(tiny)
    work = cohort(before, 2)
    run(work, before, ledger=ledger)
    lines = ledger.read_bytes()
    (assignment,) = before.values()
    tests = assignment.lab.test_file
    tests.write_text(tests.read_text().replace('["ab", "cd"]', '["ab", "xx"]'))
    regraded = run(work, assignments(tiny), ledger=ledger)
    assert regraded[0].score == 85
    assert ledger.read_bytes().startswith(lines)
    assert len(ledger.read_bytes().splitlines()) == 5


def test_files_that_change_while_it_runs_stop_it(tiny_assignments):
    (assignment,) = tiny_assignments.values()
    assert assignment.digest
    assignment.lab.test_file.write_text(assignment.lab.test_file.read_text() + "\n# new\n")
    with pytest.raises(InfrastructureError, match="changed"):
        run(cohort(tiny_assignments, 1), tiny_assignments)


def test_a_process_that_dies_once_costs_nothing(tiny_assignments):
    work = [*cohort(tiny_assignments, 5), saying(tiny_assignments, "DIE ONCE")]
    grades = run(work, tiny_assignments)
    (assignment,) = tiny_assignments.values()
    assert (assignment.lab.path / "died").exists()
    assert text(grades) == text(run(work, tiny_assignments))
    assert grades[-1].fault is None
    assert "not-run" not in {test.kind for test in grades[-1].tests}


@pytest.mark.parametrize(
    ("words", "fault"), [("DIE", pool.DIED), ("FAIL", f"{pool.FAILED} (ValueError)")]
)
def test_a_submission_on_which_the_grader_fails_twice_gets_a_verdict(
    tiny_assignments, tmp_path, words, fault
):
    poison = saying(tiny_assignments, words)
    work = [poison, *cohort(tiny_assignments, 4)]
    ledger = tmp_path / "grades.jsonl"
    grades = run(work, tiny_assignments, ledger=ledger)
    assert (grades[0].fault, grades[0].score) == (fault, 0)
    assert grades[0].submission == poison.digest
    assert {test.message for test in grades[0].tests} == {fault}
    assert text(grades[1:]) == text(run(work[1:], tiny_assignments))
    count = gradings(tiny_assignments)
    assert text(run(work, tiny_assignments, ledger=ledger)) == text(grades)
    assert gradings(tiny_assignments) == count


@pytest.fixture
def breakable(tmp_path, monkeypatch):
    """A bwrap that no longer works once the file that this returns is there."""
    flag = tmp_path / "broken"
    real = shutil.which("bwrap")
    if real is None:
        give_up("there is no bwrap: apt-get install bubblewrap")
    fake = tmp_path / "bwrap"
    fake.write_text(f'#!/bin/sh\n[ -e "{flag}" ] && exit 1\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return flag


def test_a_sandbox_that_does_not_start_is_no_submissions_fault(
    breakable, tiny_assignments, tmp_path
):
    ledger = tmp_path / "grades.jsonl"
    breakable.touch()
    with pytest.raises(InfrastructureError, match="a worker cannot be started"):
        run(cohort(tiny_assignments, 2), tiny_assignments, ledger=ledger)
    assert len(ledger.read_bytes().splitlines()) == 1


def test_a_sandbox_that_breaks_on_the_way_stops_it(breakable, tiny_assignments, tmp_path):
    ledger = tmp_path / "grades.jsonl"
    work = cohort(tiny_assignments, 12)
    with pytest.raises(InfrastructureError, match="a worker cannot be started"):
        run(work, tiny_assignments, ledger=ledger, on_progress=lambda *_: breakable.touch())
    breakable.unlink()
    assert 1 < len(ledger.read_bytes().splitlines()) < 12
    assert text(run(work, tiny_assignments, ledger=ledger)) == text(run(work, tiny_assignments))


def test_processes_that_die_before_they_start_stop_it(tiny_assignments, monkeypatch):
    monkeypatch.setattr(pool, "_serve", os._exit)
    with pytest.raises(InfrastructureError, match="do not start"):
        run(cohort(tiny_assignments, 2), tiny_assignments)


def test_mistakes_are_named(tiny_assignments):
    work = cohort(tiny_assignments, 1)
    with pytest.raises(UsageError, match="--jobs 0"):
        run(work, tiny_assignments, 0)
    with pytest.raises(UsageError, match="no lab 'lab-99'"):
        run([Submission("ann", "lab-99")], tiny_assignments)


def test_slots_of_one_machine_have_different_numbers():
    before = os.sched_getaffinity(0)
    try:
        with slot.Slot("trust") as first, slot.Slot("trust") as second:
            assert first._number != second._number
            taken = socket.socket(socket.AF_UNIX)
            with closing(taken), pytest.raises(OSError, match="in use"):
                taken.bind(f"\0labkit-slot-{first._number}")
    finally:
        os.sched_setaffinity(0, before)


DRIVER = """
import sys
from pathlib import Path
from tiny_cohort import MODE, assignments, cohort, real_cohort
from labkit.grading.cohort import grade_all

if __name__ == "__main__":
    root, ledger, size, jobs = sys.argv[1:]
    if size == "real":
        told, work = real_cohort(Path(root))
    else:
        told = assignments(Path(root))
        work = cohort(told, int(size))
    grade_all(work, told, mode=MODE, jobs=int(jobs), ledger=Path(ledger),
              on_progress=lambda done, *_: print(done, flush=True))
"""


class Driver:
    """A grader in a process of its own: of so many tiny submissions, or of `real` ones."""

    def __init__(self, root, ledger, size):
        self.mark = f"LABKIT_TEST={ledger}"
        script = ledger.with_name("driver.py")
        script.write_text(DRIVER)
        paths = os.pathsep.join([str(ROOT), str(Path(tiny_cohort.__file__).parent)])
        self.process = subprocess.Popen(
            [sys.executable, script, root, ledger, str(size), str(JOBS)],
            env={**os.environ, "LABKIT_TEST": str(ledger), "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, done):
        for line in self.process.stdout:
            if int(line) >= done:
                return
        raise AssertionError(self.process.stderr.read())

    def slots(self):
        """Return the processes that grade, and not the one that tidies up after them."""
        found = []
        for process in alive(self.mark):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if b"spawn_main" in command:
                found.append(process)
        return found

    def end(self, number):
        """Send a signal to all, as Ctrl-C does, or kill the one; return when all are gone."""
        slots = [os.pidfd_open(process) for process in self.slots()]
        assert slots
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.kill()
        _, errors = self.process.communicate(timeout=60)
        for process in slots:
            assert select.select([process], [], [], 60)[0], "a process outlived the grader"
            os.close(process)
        return errors


def grade_with_kills(root, ledger, kind, size):
    """Grade in another process: kill a slot, then that process, then let a new one finish."""
    first = Driver(root, ledger, kind)
    first.wait_for(size // 4)
    os.kill(first.slots()[0], signal.SIGKILL)
    first.wait_for(size // 2)
    first.end(signal.SIGKILL)
    assert size // 2 <= ledger.read_bytes().count(b"\n") - 1 < size
    second = Driver(root, ledger, kind)
    second.wait_for(size)
    _, errors = second.process.communicate(timeout=60)
    assert (second.process.returncode, errors) == (0, "")
    lines = ledger.read_bytes().splitlines()
    assert len(lines) - 1 == size == len({json.loads(line)["sum"] for line in lines[1:]})


@pytest.mark.timeout(3_600 if SOAK else 120)
def test_killed_at_any_moment_and_begun_again_nothing_is_lost_or_done_twice(
    tiny, tiny_assignments, tmp_path
):
    ledger = tmp_path / "grades.jsonl"
    grade_with_kills(tiny, ledger, SIZE, SIZE)
    # What was under way when somebody was killed began twice, and nothing else did.
    count = gradings(tiny_assignments)
    assert SIZE <= count <= SIZE + 1 + JOBS
    work = cohort(tiny_assignments, SIZE)
    grades = run(work, tiny_assignments, ledger=ledger)
    assert gradings(tiny_assignments) == count
    assert text(grades) == text(run(work, tiny_assignments))


if SOAK:

    @pytest.mark.timeout(3_600)
    def test_a_real_cohort_survives_kills_too(tmp_path):
        ledger = tmp_path / "grades.jsonl"
        told, work = real_cohort(ROOT)
        grade_with_kills(ROOT, ledger, "real", len(work))
        grades = run(work, told, ledger=ledger)
        assert text(grades) == text(run(work, told))
        assert {grade.score for grade in grades} > {0, 100}


def test_ctrl_c_stops_all_processes_and_the_ledger_is_good(tiny, tiny_assignments, tmp_path):
    ledger = tmp_path / "grades.jsonl"
    driver = Driver(tiny, ledger, 40)
    driver.wait_for(5)
    errors = driver.end(signal.SIGINT)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "Process labkit-slot" not in errors
    lines = ledger.read_bytes().splitlines()
    assert 5 <= len(lines) - 1 < 40
    count = gradings(tiny_assignments)
    grades = run(cohort(tiny_assignments, 5), tiny_assignments, ledger=ledger)
    assert gradings(tiny_assignments) <= count + 1
    assert len(grades) == 5
