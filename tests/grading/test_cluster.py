import os
import shutil
import sys
from pathlib import Path

import pytest
from dask_cluster import cluster, needs_dask
from tiny_cohort import MODE, assignments, cohort, gradings, saying, text

from labkit.errors import InfrastructureError, UsageError
from labkit.grading import cluster as module
from labkit.grading import pool
from labkit.grading.cohort import grade_all

ROOT = Path(__file__).resolve().parents[2]
SIZE = 200 if os.environ.get("SOAK") else 10


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def own_cluster(tmp_path):
    """A cluster of two workers for one test, which may break it."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    with cluster(folder) as found:
        yield found


@pytest.fixture
def tiny_assignments(tiny):
    return assignments(tiny)


def run(submissions, assignments, cluster=None, **options):
    return grade_all(submissions, assignments, mode=MODE, jobs=2, cluster=cluster, **options)


def test_grades_are_those_of_this_machine(two_workers, tiny_assignments):
    work = cohort(tiny_assignments, SIZE)
    grades = run(work, tiny_assignments, two_workers.address)
    assert gradings(tiny_assignments) == SIZE
    assert text(grades) == text(run(work, tiny_assignments))


def test_a_killed_worker_costs_nothing(two_workers, tiny_assignments):
    work = [saying(tiny_assignments, "DIE ONCE"), *cohort(tiny_assignments, SIZE)]
    grades = run(work, tiny_assignments, two_workers.address)
    (assignment,) = tiny_assignments.values()
    assert (assignment.lab.path / "died").exists()
    assert text(grades) == text(run(work, tiny_assignments))
    assert [grade.fault for grade in grades] == [None] * len(work)


def test_a_submission_that_kills_its_worker_twice_gets_a_verdict_and_no_other_does(
    two_workers, tiny_assignments
):
    poison = [saying(tiny_assignments, "DIE", number) for number in range(4)]
    count = gradings(tiny_assignments)
    grades = run(poison[:1], tiny_assignments, two_workers.address)
    assert grades[0].fault == pool.DIED
    assert gradings(tiny_assignments) - count == 2
    good = cohort(tiny_assignments, SIZE)
    work = [item for pair in zip(poison, good, strict=False) for item in pair]
    grades = run([*work, *good[4:]], tiny_assignments, two_workers.address)
    assert text(grades) == text(run([*work, *good[4:]], tiny_assignments))


def test_a_submission_on_which_the_grader_fails_twice_gets_a_verdict(two_workers, tiny_assignments):
    work = [saying(tiny_assignments, "FAIL"), *cohort(tiny_assignments, 2)]
    grades = run(work, tiny_assignments, two_workers.address)
    assert grades[0].fault == f"{pool.FAILED} (ValueError)"
    assert text(grades) == text(run(work, tiny_assignments))


def test_a_lost_machine_costs_nothing(own_cluster, tiny_assignments, tmp_path):
    work = cohort(tiny_assignments, SIZE)

    def lose_one(done, *_):
        if done == 3:
            own_cluster.lose(own_cluster.workers[0])

    ledger = tmp_path / "grades.jsonl"
    grades = run(work, tiny_assignments, own_cluster.address, ledger=ledger, on_progress=lose_one)
    assert own_cluster.workers[0].poll() is not None
    assert len(ledger.read_bytes().splitlines()) - 1 == SIZE
    assert text(grades) == text(run(work, tiny_assignments, ledger=ledger))


def test_when_the_scheduler_dies_the_ledger_keeps_what_is_done(
    own_cluster, tiny_assignments, tmp_path, monkeypatch
):
    work = cohort(tiny_assignments, SIZE)

    def lose_scheduler(done, *_):
        if done == 3:
            own_cluster.lose(own_cluster.scheduler)

    # It would wait for the scheduler to come back.
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 2)
    ledger = tmp_path / "grades.jsonl"
    with pytest.raises(InfrastructureError, match="is gone; what was done is in the ledger"):
        run(work, tiny_assignments, own_cluster.address, ledger=ledger, on_progress=lose_scheduler)
    done = len(ledger.read_bytes().splitlines()) - 1
    assert 3 <= done < SIZE
    assert text(run(work, tiny_assignments, ledger=ledger)) == text(run(work, tiny_assignments))


def test_a_worker_with_another_course_is_refused(tmp_path, tiny_assignments):
    other = tmp_path / "other"
    for name in ("labkit", "mini_vllm"):
        shutil.copytree(ROOT / name, other / name)
    with open(other / "labkit/running/verdict.py", "a") as file:
        file.write("# other\n")
    with cluster(tmp_path, workers=0) as found:
        found.add_worker(path=other)
        with pytest.raises(InfrastructureError, match="has another course than this machine"):
            run(cohort(tiny_assignments, 1), tiny_assignments, found.address)
    assert gradings(tiny_assignments) == 0


def test_a_worker_whose_files_changed_since_it_imported_them_is_refused(two_workers, tiny):
    told = assignments(tiny)
    run(cohort(told, 2), told, two_workers.address)
    (assignment,) = told.values()
    test_file = assignment.lab.test_file
    test_file.write_text(test_file.read_text() + "\n# new\n")
    with pytest.raises(InfrastructureError, match=r"changed files there.*start it anew"):
        run(cohort(told, 2), assignments(tiny), two_workers.address)


def test_what_cannot_be_reached_is_named(tmp_path, tiny_assignments, monkeypatch):
    needs_dask()
    work = cohort(tiny_assignments, 1)
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 1)
    with pytest.raises(InfrastructureError, match="no Dask scheduler answers at tcp://127"):
        run(work, tiny_assignments, "tcp://127.0.0.1:9")
    with pytest.raises(UsageError, match=r"--cluster nonsense:.*tcp://HOST:8786"):
        run(work, tiny_assignments, "nonsense:")
    monkeypatch.setattr(module, "WAIT_SECONDS", 1)
    with (
        cluster(tmp_path, workers=0) as found,
        pytest.raises(InfrastructureError, match="no worker has come"),
    ):
        run(work, tiny_assignments, found.address)


def test_without_dask_it_says_how_to_get_it(tiny_assignments, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"requirements/cohort\.txt"):
        run(cohort(tiny_assignments, 1), tiny_assignments, "tcp://127.0.0.1:9")
