"""Grading many at once: equal to one by one, whatever dies, and never twice."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
import tiny_cohort
from tiny_cohort import (
    assignments,
    cohort,
    go,
    gradings,
    in_stages,
    plain,
    real_cohort,
    saying,
    text,
    waiting,
)  # fmt: skip

from labkit.errors import InfrastructureError, UsageError
from labkit.grading import pool, retry, slot
from labkit.grading.reading.submission import Submission

ROOT = Path(__file__).resolve().parents[2]
JOBS = 2


def test_grades_are_those_of_one_by_one_however_many_jobs(tiny_assignments, run, alone):
    work = cohort(tiny_assignments, 7)
    grades = alone(work, tiny_assignments)
    assert len({grade["score"] for grade in grades}) > 3
    assert text(run(work, tiny_assignments, 1)) == text(grades)
    assert text(run(work, tiny_assignments, 3)) == text(grades)


def test_equal_files_are_graded_once_and_faults_never(tiny_assignments, run):
    (name,) = tiny_assignments
    (found,) = run([Submission("ann", name, {}, "it is a link")], tiny_assignments)
    assert (found["fault"], found["score"]) == ("it is a link", 0)
    assert gradings(tiny_assignments) == 0
    assert run([], tiny_assignments) == []
    (first, second) = cohort(tiny_assignments, 2)
    work = [
        Submission(student, item.lab, item.sources)
        for student, item in [("ann", first), ("bob", second), ("cy", first), ("dan\n", first)]
    ]
    told = []
    grades = run(work, tiny_assignments, on_progress=lambda *news: told.append(news))
    assert [g["student"] for g in grades] == ["ann", "bob", "cy", "dan\\n"]
    assert {**grades[0], "student": ""} == {**grades[2], "student": ""}
    assert grades[0]["score"] == 100 > grades[1]["score"]
    assert gradings(tiny_assignments) == 2
    assert [news[:2] for news in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert sorted(map(text, plain(news[2] for news in told))) == sorted(map(text, grades))


def test_what_is_in_the_ledger_is_graded_again_only_when_its_tests_have_changed(
    tiny, tiny_assignments, tmp_path, run, alone
):
    ledger = tmp_path / "grades.jsonl"
    work = cohort(tiny_assignments, 6)
    first = run(work[:3], tiny_assignments, ledger=ledger)
    lines = ledger.read_bytes()
    assert text(run(work[:3], tiny_assignments, ledger=ledger)) == text(first)
    assert gradings(tiny_assignments) == 3
    assert ledger.read_bytes() == lines
    told = []
    both = run(work, tiny_assignments, ledger=ledger, on_progress=lambda *n: told.append(n[0]))
    assert gradings(tiny_assignments) == 6
    assert told == [1, 2, 3, 4, 5, 6]
    assert ledger.read_bytes().startswith(lines)
    assert text(both) == text(alone(work, tiny_assignments))
    lines = ledger.read_bytes()
    (assignment,) = tiny_assignments.values()
    tests = assignment.lab.test_file
    tests.write_text(tests.read_text().replace('["ab", "cd"]', '["ab", "xx"]'))
    # Who does not read them again is stopped.
    with pytest.raises(InfrastructureError, match="changed"):
        run(cohort(tiny_assignments, 7), tiny_assignments)
    regraded = run(work[:2], assignments(tiny), ledger=ledger)
    assert regraded[0]["score"] == 85
    assert ledger.read_bytes().startswith(lines)
    assert len(ledger.read_bytes().splitlines()) == 1 + 6 + 2


def test_what_kills_processes_or_fails_twice_gets_a_verdict_and_nothing_else_does(
    tiny_assignments, tmp_path, run, alone
):
    poison = [saying(tiny_assignments, words) for words in ("DIE", "FAIL", "SPEND")]
    work = [*poison, *cohort(tiny_assignments, 3), saying(tiny_assignments, "DIE ONCE")]
    ledger = tmp_path / "grades.jsonl"
    told = []
    grades = run(
        work, tiny_assignments, JOBS, ledger=ledger, on_progress=lambda *news: told.append(news[2])
    )
    # Those that have to be tried again come after all the others.
    late = {one.submission for one in told[-4:]}
    assert late == {item.digest for item in (*poison, work[-1])}
    faults = (retry.DIED, f"{retry.FAILED} (InfrastructureError)", retry.OVERSPENT)
    for item, grade, fault in zip(poison, grades, faults, strict=False):
        assert (grade["fault"], grade["doubt"], grade["score"]) == (fault, fault, 0)
        assert grade["submission"] == item.digest
        assert {test["message"] for test in grade["tests"]} == {fault}
    # Who dies once is graded twice, too.
    assert gradings(tiny_assignments) == 3 * 2 + 3 + 2
    assert text(run(work, tiny_assignments, JOBS, ledger=ledger)) == text(grades)
    assert gradings(tiny_assignments) == 3 * 2 + 3 + 2
    assert text(grades[3:]) == text(alone(work[3:], tiny_assignments))
    told = {"ledger": ledger, "regrade_doubtful": True}
    assert text(run(work, tiny_assignments, **told)) == text(grades)
    # Those that were graded alone to compare with, and the three that are doubtful, twice each.
    assert gradings(tiny_assignments) == 3 * 2 + 3 + 2 + 4 + 3 * 2
    assert grades[-1]["fault"] is None
    assert "not-run" not in {test["kind"] for test in grades[-1]["tests"]}


def children(process):
    """The numbers of the processes that a process has started."""
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True)
    return map(int, done.stdout.split())


def test_a_sandbox_that_does_not_start_is_no_submissions_fault(
    tiny_assignments, tmp_path, monkeypatch, need, run, alone
):
    need("sandbox")
    ledger = tmp_path / "grades.jsonl"
    work = cohort(tiny_assignments, 8)
    # This bwrap does not work as long as a file is there.
    broken, fake, started = (tmp_path / name for name in ("broken", "bwrap", "started"))
    script = (
        f'[ -e "{broken}" ] && exit 1\necho $$ >> {started}\nexec {shutil.which("bwrap")} "$@"\n'
    )
    fake.write_text(f"#!/bin/sh\n{script}")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    broken.touch()
    with pytest.raises(InfrastructureError, match="a worker cannot be started"):
        run(work[:2], tiny_assignments, JOBS, ledger=ledger)
    assert len(ledger.read_bytes().splitlines()) == 1
    # Or one that breaks on the way.
    broken.unlink()

    def breaks(*_):
        broken.touch()
        for process in {*map(int, started.read_text().split())}:
            # Of bubblewrap's own process, the one in its sandbox that all workers come from.
            for child in children(process):
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    with pytest.raises(InfrastructureError, match="a worker cannot be started"):
        run(work, tiny_assignments, JOBS, ledger=ledger, on_progress=breaks)
    broken.unlink()
    assert 1 < len(ledger.read_bytes().splitlines()) < 8
    grades = run(work, tiny_assignments, JOBS, ledger=ledger)
    assert text(grades) == text(alone(work, tiny_assignments))


def test_processes_that_do_not_start_and_mistakes_are_named(tiny_assignments, monkeypatch, run):
    monkeypatch.setattr(pool, "_serve", os._exit)
    work = cohort(tiny_assignments, 2)
    with pytest.raises(InfrastructureError, match="do not start"):
        run(work, tiny_assignments)
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


DRIVER = f"""
import signal
import sys
from pathlib import Path
from tiny_cohort import assignments, cohort, in_stages, real_cohort
from labkit.grading.cohort import grade_all

if __name__ == "__main__":
    # Where the tests run in the background of a shell, it is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    root, ledger, kind, mode, *stalls = sys.argv[1:]
    if kind.startswith("real"):
        told, work = real_cohort(Path(root), kind == "real")
    else:
        told = assignments(Path(root))
        work = in_stages(told) if kind == "stages" else cohort(told, int(kind))

    def on_progress(done, *_):
        print(done, flush=True)
        if str(done) in stalls:
            sys.stdin.readline()

    grade_all(work, told, mode=mode, jobs={JOBS}, ledger=Path(ledger), on_progress=on_progress)
"""


class Driver:
    """A grader in a process of its own.

    Its submissions are `stages`, `real` ones, a `real sample`, or so many tiny ones. When as many
    as one of `stalls` are done, it waits for `go_on`.
    """

    def __init__(self, root, ledger, kind, mode, stalls=()):
        script = ledger.with_name("driver.py")
        script.write_text(DRIVER)
        paths = os.pathsep.join([str(ROOT), str(Path(tiny_cohort.__file__).parent)])
        self.process = subprocess.Popen(
            [sys.executable, script, root, ledger, str(kind), mode, *map(str, stalls)],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
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

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def slots(self):
        """Return the processes that grade: its children, but for the one that tidies up."""
        number = self.process.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        told = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
        return [int(child) for child, command in told.items() if b"spawn_main" in command]

    def end(self, number):
        """Send a signal to all, as Ctrl-C does, or kill the one; return when all are gone."""
        slots = [os.pidfd_open(process) for process in self.slots()]
        assert len(slots) == JOBS
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.kill()
        _, errors = self.process.communicate(timeout=100)
        for process in slots:
            assert select.select([process], [], [], 100)[0], "a process outlived the grader"
            os.close(process)
        return errors

    def finish(self, size):
        self.wait_for(size)
        _, errors = self.process.communicate(timeout=100)
        assert (self.process.returncode, errors) == (0, "")


def sums(ledger):
    """Return what tells the lines of a ledger apart."""
    return [json.loads(line)["sum"] for line in ledger.read_bytes().splitlines()[1:]]


def test_killed_and_begun_again_nothing_is_lost_or_done_twice(
    tiny, tiny_assignments, tmp_path, mode, run
):
    ledger = tmp_path / "grades.jsonl"
    work = in_stages(tiny_assignments)
    first = Driver(tiny, ledger, "stages", mode)
    first.wait_for(4)
    slots = waiting(tiny_assignments, 1, JOBS)
    os.kill(slots[0], signal.SIGKILL)
    # Another one goes on with what comes next: that one waits for its turn alone.
    first.wait_for(7)
    waiting(tiny_assignments, 2, 1)
    go(tiny_assignments, 1)
    first.wait_for(8)
    waiting(tiny_assignments, 2, JOBS)
    first.end(signal.SIGKILL)
    assert len(sums(ledger)) == 8
    go(tiny_assignments, 2)
    Driver(tiny, ledger, "stages", mode).finish(len(work))
    assert len({*sums(ledger)}) == len(sums(ledger)) == len(work)
    # What was under way when somebody was killed began twice, and nothing else did.
    assert gradings(tiny_assignments) == len(work) + 1 + JOBS
    grades = run(work, tiny_assignments, ledger=ledger)
    assert gradings(tiny_assignments) == len(work) + 1 + JOBS
    assert text(grades) == text(run(work, tiny_assignments))


def test_ctrl_c_stops_all_processes_and_the_ledger_is_good(
    tiny, tiny_assignments, tmp_path, mode, run
):
    ledger = tmp_path / "grades.jsonl"
    work = in_stages(tiny_assignments)
    driver = Driver(tiny, ledger, "stages", mode)
    driver.wait_for(4)
    waiting(tiny_assignments, 1, JOBS)
    errors = driver.end(signal.SIGINT)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "Process labkit-slot" not in errors
    assert len(sums(ledger)) == 4
    go(tiny_assignments, 1)
    grades = run(work[:6], tiny_assignments, ledger=ledger)
    assert gradings(tiny_assignments) == 6 + JOBS
    assert len(grades) == 6


SOAK = bool(os.environ.get("SOAK"))


@pytest.mark.timeout(3_600 if SOAK else 300)
@pytest.mark.parametrize("kind", ["1000", "real"] if SOAK else ["8", "real sample"])
def test_killed_at_any_moment_too(kind, tiny, tiny_assignments, tmp_path, mode, run):
    ledger = tmp_path / "grades.jsonl"
    if kind.startswith("real"):
        root, (told, work) = ROOT, real_cohort(ROOT, kind == "real")
    else:
        root, told, work = tiny, tiny_assignments, cohort(tiny_assignments, int(kind))
    first = Driver(root, ledger, kind, mode, stalls := (len(work) // 4, len(work) // 2))
    first.wait_for(stalls[0])
    os.kill(first.slots()[0], signal.SIGKILL)
    first.go_on()
    first.wait_for(stalls[1])
    first.end(signal.SIGKILL)
    Driver(root, ledger, kind, mode).finish(len(work))
    assert len({*sums(ledger)}) == len(sums(ledger)) == len(work)
    grades = run(work, told, JOBS, ledger=ledger)
    assert text(grades) == text(run(work, told, JOBS))
    if root is tiny:
        # Two cohorts, and what was under way at the kills.
        assert gradings(told) <= 2 * len(work) + 1 + JOBS
