"""Grading on a Dask cluster of processes here: equal to this machine's, whatever is lost."""

import os
import shutil
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from dask_cluster import cluster, needs_dask
from made_grades import made_grade, made_test
from tiny_cohort import assignments, cohort, gradings, saying, text

from labkit.errors import InfrastructureError, UsageError
from labkit.grading import cluster as module
from labkit.grading import retry

ROOT = Path(__file__).resolve().parents[2]
SIZE = 200 if os.environ.get("SOAK") else 10


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """A cluster for all tests. The last one here breaks it."""
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_grades_are_those_of_one_by_one_and_a_worker_whose_files_have_changed_is_refused(
    two_workers, tiny, run, alone
):
    told = assignments(tiny)
    # So many that each worker has some.
    work = cohort(told, SIZE)
    grades = run(work, told, cluster=two_workers.address)
    assert gradings(told) == SIZE
    assert text(grades) == text(alone(work, told))
    (assignment,) = told.values()
    test_file = assignment.lab.test_file
    test_file.write_text(test_file.read_text() + "\n# new\n")
    with pytest.raises(InfrastructureError, match=r"changed files there.*restart it"):
        run(work, assignments(tiny), cluster=two_workers.address)


def test_what_kills_workers_or_fails_twice_gets_a_verdict_and_nothing_else_does(
    two_workers, tiny_assignments, run, alone
):
    poison = [saying(tiny_assignments, words, n) for n, words in enumerate(("DIE", "FAIL"))]
    good = [saying(tiny_assignments, "DIE ONCE"), *cohort(tiny_assignments, SIZE)]
    work = [*good[:2], poison[0], *good[2:5], poison[1], *good[5:]]
    grades = run(work, tiny_assignments, cluster=two_workers.address)
    (assignment,) = tiny_assignments.values()
    assert (assignment.lab.path / "died").exists()
    by_digest = {grade["submission"]: grade for grade in grades}
    assert [by_digest[item.digest]["fault"] for item in poison] == [
        retry.DIED, f"{retry.FAILED} (InfrastructureError)"
    ]  # fmt: skip
    found = [by_digest[item.digest] for item in good]
    named = [{**grade, "student": item.student} for grade, item in zip(found, good, strict=True)]
    assert text(named) == text(alone(good, tiny_assignments))

    # Who kills its worker is tried twice alone.
    found = gradings(tiny_assignments)
    one = saying(tiny_assignments, "DIE", 9)
    (grade,) = run([one], tiny_assignments, cluster=two_workers.address)
    assert grade["fault"] == retry.DIED
    assert gradings(tiny_assignments) == found + 3


@pytest.mark.parametrize(("deaths", "fault"), [(2, None), (3, retry.DIED)])
def test_a_worker_that_others_killed_does_not_count(tiny_assignments, deaths, fault):
    (item,) = cohort(tiny_assignments, 1)
    client = MagicMock()
    client.nthreads.return_value = {"living": 1}
    left = [KeyError("lost")] * deaths

    def submit(function, *told, **how):
        future = MagicMock()
        future.result.return_value = made_grade("", [made_test("test_a", 1, 100)])
        if told and left:
            future.result.side_effect = left.pop()
        future.add_done_callback = lambda put: put(future)
        return future

    client.submit.side_effect = submit
    workers = module.Cluster(client, tiny_assignments, "trust", KeyError)
    ((_, grade),) = retry.judged([item], tiny_assignments, "trust", workers.outcomes)
    assert (grade.fault, left) == (fault, [])


def test_a_submission_alone_goes_to_a_worker_that_answers(tiny_assignments):
    (item,) = cohort(tiny_assignments, 1)
    client = MagicMock()
    client.nthreads.return_value = {"dead": 1, "living": 1}

    def submit(function, *told, **how):
        future = MagicMock()
        future.result.return_value = how.get("workers") if told else "living"
        if len(client.submit.mock_calls) == 1:
            future.result.side_effect = KeyError("lost")
        future.add_done_callback = lambda put: put(future)
        return future

    client.submit.side_effect = submit
    work = module.Cluster(client, tiny_assignments, "trust", KeyError)
    assert [*work.outcomes([(0, item)], alone=True)] == [(0, ["living"])]
    # With others it goes wherever there is room.
    assert [*work.outcomes([(0, item)], alone=False)] == [(0, None)]


def test_a_scheduler_without_workers_or_with_a_worker_of_another_course(
    tmp_path, tiny_assignments, run, monkeypatch
):
    work = cohort(tiny_assignments, 1)
    with cluster(tmp_path, workers=0) as found:
        with monkeypatch.context() as patch:
            patch.setattr(module, "WAIT_SECONDS", 0.1)
            with pytest.raises(InfrastructureError, match="no worker has connected"):
                run(work, tiny_assignments, cluster=found.address)
        other = tmp_path / "other"
        for name in ("labkit", "mini_vllm"):
            shutil.copytree(ROOT / name, other / name)
        edited = other / "labkit/grading/grader.py"
        edited.write_text(edited.read_text() + "# other\n")
        found.add_worker(path=other)
        with pytest.raises(InfrastructureError, match="has another course than this machine"):
            run(work, tiny_assignments, cluster=found.address)
    assert gradings(tiny_assignments) == 0


def test_what_cannot_be_reached_or_is_not_installed_is_named(tiny_assignments, monkeypatch, run):
    needs_dask()
    work = cohort(tiny_assignments, 1)
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.2)
    with pytest.raises(InfrastructureError, match="no Dask scheduler answers at tcp://127"):
        run(work, tiny_assignments, cluster="tcp://127.0.0.1:9")
    with pytest.raises(UsageError, match=r"--cluster nonsense:.*tcp://HOST:8786"):
        run(work, tiny_assignments, cluster="nonsense:")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"requirements/cohort\.txt"):
        run(work, tiny_assignments, cluster="tcp://127.0.0.1:9")


def test_a_lost_machine_costs_nothing_and_a_lost_scheduler_leaves_the_ledger(
    two_workers, tiny_assignments, tmp_path, monkeypatch, run, alone
):
    work = cohort(tiny_assignments, SIZE)
    right = text(alone(work, tiny_assignments))

    def lose_worker(done, *_):
        if done == 3:
            two_workers.lose(two_workers.workers[0])

    def lose_scheduler(done, *_):
        if done == 3:
            two_workers.lose(two_workers.scheduler)

    ledger = tmp_path / "grades.jsonl"
    told = {"cluster": two_workers.address, "ledger": ledger}
    assert text(run(work, tiny_assignments, on_progress=lose_worker, **told)) == right
    assert two_workers.workers[0].poll() is not None
    assert len(ledger.read_bytes().splitlines()) - 1 == SIZE
    ledger.unlink()
    dask = needs_dask()

    class Client(dask.Client):
        """One that does not wait for long until its scheduler comes back."""

        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self._timeout = 0.5

    monkeypatch.setattr(dask, "Client", Client)
    with pytest.raises(InfrastructureError, match="is gone; a ledger keeps the grades so far"):
        run(work, tiny_assignments, on_progress=lose_scheduler, **told)
    assert 3 <= len(ledger.read_bytes().splitlines()) - 1 < SIZE
    assert text(run(work, tiny_assignments, ledger=ledger)) == right
