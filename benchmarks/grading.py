"""What it costs to keep a submission from forging its score: grading in a sandbox and without.

*plain* is what `make lab` does, in a process that has already run it once: pytest, with the tests
and the submission in one process, and no start of an interpreter. *sandbox* and *container* run the
same tests on the same file, with the file in a process of its own behind a pipe, started for each
submission. Python's garbage collector is on, as where students and graders run tests. Where a lab
builds on others, the student's own parts are handed in with it; without them the references run in
a second process, which is the row beneath. Figures are submissions a minute on one processor. A
container needs root, and is left out without; where bubblewrap is missing, `trust` is measured in
place of a sandbox.

Then come a worker's start and a round trip, by mode; the pool with its ledger, by jobs; and
otter-grader, run as in its Gradescope image (`otter run`), on a lab whose seven tests are written
as doctests. To include it: `OTTER=.../bin/otter python -m benchmarks grading`, with otter-grader
and ipykernel installed there.
"""

import gc
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import pytest

from benchmarks.aims import at_least
from benchmarks.harness import Report, interleaved, main, seconds
from benchmarks.peers.detokenizers import ROOT
from labkit.course.lab import Lab, find_labs
from labkit.grading.assignment import Assignment
from labkit.grading.cohort import grade_all
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.grading.slot import Slot
from labkit.isolation.host import Host, Sources
from labkit.isolation.sandbox import Sandbox
from labkit.running.trace import Call, New

TINY = ROOT / "tests" / "tiny_repo"
MODE = "sandbox" if shutil.which("bwrap") else "trust"
SAFE = at_least(f"submissions a minute, core labs, {MODE} / peer", "plain pytest", 0.7)
# Measured if there are two processors.
SCALING = at_least("submissions a second, 2 jobs / peer", "1 job", 1.6)
ECHO = b"class Echo:\n    held = ''\n    def feed(self, text):\n        return text\n"


def work(report: Report) -> None:
    """Measure labs, then the parts, then the pool, then otter-grader."""
    with ExitStack() as held:
        modes = [MODE] + ["container"] * (os.geteuid() == 0)
        slots = {mode: held.enter_context(Slot(mode)) for mode in modes}
        _labs(report, TINY if report.quick else ROOT, slots)
    _parts(report)
    _jobs(report)
    otter = os.environ.get("OTTER") or shutil.which("otter")
    if otter:
        _otter(report, otter)
    else:
        print("otter-grader is not measured: set OTTER to its command.")


def _labs(report: Report, root: Path, slots: dict[str, Slot]) -> None:
    labs = find_labs(root)
    rows = []
    for lab in labs:
        if lab.hunt is not None:
            # Its students run a part of what is graded, so there is nothing to compare with.
            continue
        assignment = Assignment.of(lab, labs)
        for title, submission in _handed_in(lab, labs).items():

            def graded(
                slot: Slot, submission: Submission = submission, assignment: Assignment = assignment
            ) -> None:
                with _collector():
                    assert grade(submission, assignment, slot.sandbox).score == 100

            work: dict[str, Callable[[], object]] = {
                mode: partial(graded, slot) for mode, slot in slots.items()
            }
            work["plain"] = partial(_pytest, root, lab)
            taken = interleaved(work, min(report.repeats, 3))
            ratios = {mode: taken["plain"] / taken[mode] for mode in slots}
            rates = (60 / taken[name] for name in ("plain", *slots))
            rows.append([title, *rates, *ratios.values()])
            if title == lab.name and lab.track == "core":
                report.judge(SAFE, ratios[MODE], title)
    header = ["", "plain", *slots, *(f"{mode} x" for mode in slots)]
    report.table("submissions a minute on one processor, against plain pytest", header, rows)


@contextmanager
def _collector() -> Iterator[None]:
    """Let garbage be collected, as in every process that runs tests; clocks here turn that off."""
    gc.enable()
    try:
        yield
    finally:
        gc.disable()


def _handed_in(lab: Lab, labs: list[Lab]) -> dict[str, Submission]:
    """Return what is graded by what the table calls it: with all parts, and without."""
    sources = {other.name: other.solution.read_bytes() for other in labs}
    own = {name: sources[name] for name in (lab.name, *lab.parts.values())}
    submissions = {lab.name: Submission("", lab.name, own)}
    if lab.parts:
        alone = Submission("", lab.name, {lab.name: sources[lab.name]})
        submissions[f"{lab.name}, the references as parts"] = alone
    return submissions


def _pytest(root: Path, lab: Lab) -> None:
    """Run a lab's tests on its solution in this process, as a submission of its own."""
    with tempfile.NamedTemporaryFile(suffix=".py") as file, open(os.devnull, "w") as nowhere:
        # A submission is a file of its own, not in the solution's place.
        shutil.copyfile(lab.solution, file.name)
        os.environ.update(LAB_IMPL=file.name, LAB_PARTS="reference")
        before = Path.cwd()
        os.chdir(root)
        try:
            with _collector(), redirect_stdout(nowhere), redirect_stderr(nowhere):
                code = pytest.main(
                    [str(lab.path), "-q", "-p", "no:cacheprovider", "--rootdir", str(root),
                     "-c", str(ROOT / "pyproject.toml")]
                )  # fmt: skip
        finally:
            os.chdir(before)
    assert code == 0, f"{lab.name}: pytest ended with {code}"


def _parts(report: Report) -> None:
    modes = ["trust"] + ["container"] * (os.geteuid() == 0) + ["sandbox"] * (MODE == "sandbox")
    trips = 10 if report.quick else 1_000
    rows = []
    for mode in modes:
        with Sandbox(mode) as sandbox, closing(_host(sandbox)) as host:
            start = interleaved(
                {mode: lambda sandbox=sandbox: _host(sandbox).close()}, report.repeats
            )
            many = interleaved({mode: lambda host=host: _trips(host, trips)}, report.repeats)
        rows.append([mode, start[mode] * 1e3, many[mode] / trips * 1e6])
    header = ["mode", "start and end of a worker (ms)", "a round trip (us)"]
    report.table("what a worker costs", header, rows)


def _host(sandbox: Sandbox) -> Host:
    host = Host(sandbox, Sources("echo", {"echo": ("echo.py", "echo.py", ECHO)}))
    host.begin(60)
    assert host.load() is None
    return host


def _trips(host: Host, count: int) -> None:
    host.begin(60)
    for _ in range(count):
        host.perform([New("Echo", (), {})], [Call("feed", ("text",), {}, 0)], "held")
    host.end()


def _jobs(report: Report) -> None:
    labs = find_labs(TINY)
    assignments = {lab.name: Assignment.of(lab, labs) for lab in labs}
    (lab,) = labs
    source = lab.solution.read_bytes()
    count = 2 if report.quick else 200
    work = [Submission("", lab.name, {lab.name: source + b"\n# %d" % n}) for n in range(count)]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))

    def grade(jobs: int) -> Callable[[], object]:
        def run() -> None:
            with tempfile.TemporaryDirectory() as folder:
                grade_all(work, assignments, mode=MODE, jobs=jobs, ledger=Path(folder) / "ledger")

        return run

    # Two jobs are only faster where there are two processors.
    some = [1, *([] if report.quick else range(2, (os.cpu_count() or 1) + 1))]
    taken = {jobs: seconds(grade(jobs)) for jobs in some}
    rows = [[jobs, count / taken[jobs], taken[1] / taken[jobs]] for jobs in some]
    header = ["jobs", "submissions a second", "to 1 job x"]
    report.table(f"{count} submissions of a lab of seven tests, {MODE}, pool and ledger", header,
                 rows)  # fmt: skip
    if 2 in taken:
        report.judge(SCALING, taken[1] / taken[2])


OTTER_TEST = """OK_FORMAT = True
test = {"name": %r, "points": 15, "suites": [{"cases": [{"code": %r}], "scored": True,
        "setup": "", "teardown": "", "type": "doctest"}]}
"""
# The tiny lab's tests, as doctests.
DOCTESTS = {
    "pairs": ">>> p = Pairs()\n>>> [p.feed('abc'), p.feed('d')]\n['ab', 'cd']",
    "held": ">>> p = Pairs()\n>>> p.feed('abc'), p.held\n('ab', 'c')",
    "empty": ">>> Pairs().feed('')\n''",
    "flush": ">>> p = Pairs()\n>>> [p.feed('é'), p.flush()]\n['', 'é']",
    "once": ">>> p = Pairs()\n>>> [p.feed('a'), p.flush(), p.flush()]\n['', 'a', '']",
    "cuts": ">>> for k in range(5):\n...     p = Pairs()\n...     assert p.feed('abcdé'[:k]) + "
    "p.feed('abcdé'[k:]) + p.flush() == 'abcdé'",
    "linear": ">>> p = Pairs()\n>>> len(''.join(map(p.feed, 'x' * 1000)) + p.flush())\n1000",
}


def _otter(report: Report, otter: str) -> None:
    labs = find_labs(TINY)
    (lab,) = labs
    assignment = Assignment.of(lab, labs)
    submission = Submission("", lab.name, {lab.name: lab.solution.read_bytes()})
    with tempfile.TemporaryDirectory() as name, Slot(MODE) as slot:
        folder = Path(name)
        (folder / "tests").mkdir()
        for test, code in DOCTESTS.items():
            (folder / "tests" / f"{test}.py").write_text(OTTER_TEST % (test, code))
        shutil.copyfile(lab.solution, folder / "submission.py")

        def run(*command: str) -> None:
            subprocess.run([otter, *command], cwd=folder, check=True, capture_output=True)

        run("generate", "-t", "tests", "--no-environment", "--no-requirements", "-o", "made.zip")
        run("run", "--no-logo", "-a", "made.zip", "submission.py")
        assert (folder / "results.json").read_text().count('"score": 15.0') == len(DOCTESTS)
        taken = interleaved(
            {
                "ours": lambda: grade(submission, assignment, slot.sandbox),
                "otter": lambda: run("run", "--no-logo", "-a", "made.zip", "submission.py"),
            },
            report.repeats,
        )
    report.table(
        f"submissions a second of a lab of seven tests, {MODE} against `otter run`",
        ["", "ours", "otter", "ours x"],
        [["solution", 1 / taken["ours"], 1 / taken["otter"], taken["otter"] / taken["ours"]]],
    )


if __name__ == "__main__":
    main(work, name="grading", about=__doc__ or "")
