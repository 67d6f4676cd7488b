"""Grading one submission: its lab's tests, run here, on its code, run behind a pipe.

All tests run with the public seed first. With the secret seed they run afterwards, in other
workers. Points are those of the second run. Each text that a student reads, and the mistake that
the code looks like, is from the first run, which ends before a worker of this submission sees the
secret seed. From the second run a student learns whether each test passed, and the kind of a
failure. In lab 12 there is one run; see `labkit.isolation.hunter`.

No worker can write to a file, a device or a store that another worker sees, or ask whether a page
of a file is in memory: see `labkit.isolation.syscalls`, `bubblewrap` and `library`. But workers
share a kernel and its processors. A worker that has seen the secret seed may therefore still signal
to a worker of another submission, such as a friend's, or of the same submission when it is handed
in or graded again (a submission is graded again if its process was killed). The remaining channels,
from the easiest:

- Numbers that the kernel counts for all: the inode numbers of pipes and sockets; in a container
  also the numbers of processes and threads. Each worker can move the count, and read it.
- Futexes on a page of Python's library, between workers that run at the same time: a thread can be
  made so that its end wakes a thread that waits there. With musl, any wake does.
- Time: how long a computation takes tells how busy the processor, its caches and the memory are. A
  file that the machine has dropped from memory is slow to read, and fast for the next reader; the
  fork server reads all files at its start, and nothing keeps them in memory.
- In a container whose folder for temporary files is mounted with `strictatime`: the times at which
  files of the library were last read.
- Memory that runs out, for all processes of the machine.

A worker can also see, though not change, the age of the fork server, by the times of its folders,
and the free space of the file system that has Python's library. Only a machine for each submission
closes all of this.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from labkit.course.hunt import PoolTest
from labkit.course.manifest import Test
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.overlay import HiddenTest
from labkit.grading.reading.submission import Submission, one_line
from labkit.isolation.failing_test import record_failure
from labkit.isolation.host import Host, PartsHost, Sources, WorkerError
from labkit.isolation.hunter import run_hunt
from labkit.isolation.isolated_run import Planned, run_isolated
from labkit.isolation.sandbox import Sandbox
from labkit.running.diagnose import MOST_SECONDS, Mistake, diagnose, read_mistakes
from labkit.running.drive import Driver
from labkit.running.given import for_tests, read_given
from labkit.running.lab_impl import Implementation, short_hash
from labkit.running.limits.time_limit import OverdueError
from labkit.running.recording.recording import Recording
from labkit.running.reporting.explain import VISIBLE, GradedTest, explain, graded_test
from labkit.running.reporting.showing import printable, repeatable
from labkit.running.result_kind import ResultKind
from labkit.running.score import PUBLIC_SEED, LabRun, Result
from labkit.running.source import too_long

_SECRET_SEED, _OTHERS = "a seed that is kept secret", "LAB_SEED=1 make lab N="
# A source in another encoding says so in its first two lines.
_ENCODING = re.compile(rb"[ \t\f]*#.*?coding[:=]")


def grade(submission: Submission, assignment: Assignment, sandbox: Sandbox) -> Grade:
    """Return the grade of a submission, whatever the submission does.

    Args:
        submission: the submission.
        assignment: the assignment that it is graded against.
        sandbox: starts the process that holds the submission.
    """
    lab = assignment.lab
    source = submission.sources.get(lab.name)
    fault = submission.fault or _fault_of(source)
    if fault is not None or source is None:
        return refused(submission, assignment, sandbox.mode, fault or "")
    begun = partial(LabRun, lab, Implementation("path", Path("starter.py")), short_hash(source))
    run = begun(assignment.seed)
    if assignment.pool is not None:
        killed = run_hunt(run, source, assignment.pool, sandbox)
        return _graded(submission, assignment, sandbox.mode, run, run, killed)
    sources = _sources(source, submission, assignment)
    public = begun(PUBLIC_SEED)
    killed = _perform(public, sources, assignment, sandbox)
    if assignment.seed == PUBLIC_SEED:
        run = public
    else:
        # Not before: the texts for students must be complete when a worker first sees this seed.
        killed += _perform(run, sources, assignment, sandbox)
    return _graded(submission, assignment, sandbox.mode, run, public, killed)


def record_first(
    submission: Submission, assignment: Assignment, sandbox: Sandbox, name: str
) -> Recording | None:
    """Return the recording of a test that a submission fails with the public seed, if there is one.

    Args:
        submission: the submission.
        assignment: the assignment that it was graded against.
        sandbox: starts the process that holds the submission.
        name: of the test, which students may see.
    """
    lab = assignment.lab
    source = submission.sources.get(lab.name)
    test = next((test for test in lab.tests if test.name == name), None)
    if source is None or test is None:
        return None
    sources = _sources(source, submission, assignment)
    implementation = Implementation("path", Path("starter.py"))
    run = LabRun(lab, implementation, short_hash(source), PUBLIC_SEED)
    host = _host(sources, assignment, sandbox)
    try:
        recording = record_failure(run, test, host)
    finally:
        host.close()
    if recording is not None:
        recording.take_sources([(path, data) for _, path, data in sources.modules.values()])
    return recording


def _graded(
    submission: Submission,
    assignment: Assignment,
    mode: str,
    run: LabRun,
    public: LabRun,
    killed: Sequence[str],
) -> Grade:
    return Grade(
        student=one_line(submission.student),
        lab=assignment.lab.name,
        submission=submission.digest,
        assignment=assignment.digest,
        seed=assignment.seed,
        mode=mode,
        fault=None,
        looks_like=public.mistake.name if public.mistake and run.failing_tasks else None,
        tests=tuple(_tested(test, run, public) for test in _tests(assignment, run)),
        doubt=_doubt(killed, run, public),
        remarks=submission.remark_texts,
    )


def _tests(assignment: Assignment, run: LabRun) -> tuple[Test, ...]:
    if run.hunted is None:
        return assignment.tests
    return assignment.tests_when([name for name, tests in run.hunted.kills.items() if tests])


def _perform(run: LabRun, sources: Sources, assignment: Assignment, sandbox: Sandbox) -> list[str]:
    """Run all tests with the seed of a run, in workers of its own; put the results into it.

    Returns:
        A message for each process that was ended by a signal which may have come from outside.
    """
    host = _host(sources, assignment, sandbox)
    try:
        run_isolated(run, host, _hidden(assignment, run.seed))
        if run.seed == PUBLIC_SEED:
            # The previous worker has seen hidden tests, and a mistake is shown to students.
            host.close()
            run.mistake = _diagnosed(run, host)
    finally:
        host.close()
    return host.killed


def _diagnosed(run: LabRun, host: Host) -> Mistake | None:
    """Return the common mistake that the submission makes, if a probe shows one.

    The diagnosis changes neither tests nor points, whatever the submission answers.
    """
    if not run.failing_tasks:
        return None
    mistake = None
    with suppress(WorkerError, OverdueError, MemoryError), host.own_time.limit():
        host.begin(MOST_SECONDS)
        if host.load() is None:
            lab = Driver(host.perform, PUBLIC_SEED, partial(for_tests, read_given(run.lab)))
            mistake = diagnose(read_mistakes(run.lab.path), lab, run.failing_tasks, run.overdue)
        host.end()
    return mistake


def _doubt(killed: Sequence[str], *runs: LabRun) -> str | None:
    """Return in which tests the process was killed, if the submission may not be to blame."""
    if not killed:
        return None
    results = [item for run in runs for item in run.results.items()]
    tests = [name for name, result in results if any(text in result.message for text in killed)]
    first, *others = dict.fromkeys(tests) or ["a probe"]
    return f"its process was killed in {first}" + (f" and {len(others)} more" if others else "")


def refused(submission: Submission, assignment: Assignment, mode: str, why: str) -> Grade:
    """Return the grade of a submission on which no test can run: no points, and the reason."""
    why = why or "it contains nothing to grade"
    tests = (graded_test(test, None, _visibility(test)) for test in assignment.tests)
    return Grade(
        student=one_line(submission.student),
        lab=assignment.lab.name,
        submission=submission.digest,
        assignment=assignment.digest,
        seed=assignment.seed,
        mode=mode,
        fault=printable(why),
        looks_like=None,
        tests=tuple(replace(test, message=repeatable(why)) for test in tests),
        remarks=submission.remark_texts,
    )


def _tested(test: Test, run: LabRun, public: LabRun) -> GradedTest:
    result, again = run.results.get(test.name), public.results.get(test.name)
    outcome = graded_test(test, result, _visibility(test))
    if not outcome.passed and not outcome.message:
        outcome = replace(outcome, message=f"it failed ({outcome.kind}) without a message")
    if again is not None and again is not result and outcome.kind.quotes_case:
        readable = Result(ResultKind.ASSERTION, _secret(test, run)) if again.passed else again
        outcome = replace(outcome, for_student=explain(test, readable))
        if outcome.kind.is_waiting:
            # Students read this message too: the reason is the submission's own text.
            outcome = replace(outcome, message=readable.message)
    return replace(
        outcome,
        message=repeatable(outcome.message),
        detail=repeatable(outcome.detail),
        for_student=repeatable(outcome.for_student),
    )


def _secret(test: Test, run: LabRun) -> str:
    """Return the text for the student if a test fails only on cases drawn from the secret seed."""
    others = "" if isinstance(test, HiddenTest) else f" Try others: {_OTHERS}{run.lab.number}"
    return (
        f"It passes with seed {PUBLIC_SEED}, and fails on cases drawn from {_SECRET_SEED}.{others}"
    )


def _visibility(test: Test) -> str:
    return test.visibility if isinstance(test, HiddenTest | PoolTest) else VISIBLE


def _fault_of(source: bytes | None) -> str | None:
    if source is None:
        return "it contains no starter.py for this lab"
    if (fault := too_long(source, "starter.py")) is not None:
        return fault
    if not source.strip():
        return "starter.py is empty"
    if b"\0" in source:
        return f"starter.py is not UTF-8 (byte {source.index(0)} is NUL); save it as UTF-8"
    if not any(map(_ENCODING.match, source.split(b"\n", 2)[:2])):
        try:
            source.decode("utf-8")
        except UnicodeDecodeError as error:
            line, byte = source.count(b"\n", 0, error.start) + 1, source[error.start]
            return f"starter.py line {line} is not UTF-8 (byte 0x{byte:02x}); save it as UTF-8"
    return None


def _hidden(assignment: Assignment, seed: str) -> list[Planned]:
    overlay = assignment.overlay
    if overlay is None:
        return []
    functions, seed = overlay.functions(), f"{seed}/{overlay.digest}"
    return [(test, functions[test.name], seed) for test in overlay.tests]


def _sources(source: bytes, submission: Submission, assignment: Assignment) -> Sources:
    modules = {"submission": ("starter.py", "starter.py", source)}
    parts, elsewhere = {}, []
    for class_name, folder in assignment.lab.parts.items():
        own = submission.sources.get(folder)
        if own is None:
            elsewhere.append(class_name)
        else:
            modules[folder] = ("starter.py", f"{folder}/starter.py", own)
            parts[class_name] = folder
    return Sources("submission", modules, parts, elsewhere, read_given(assignment.lab))


def _host(sources: Sources, assignment: Assignment, sandbox: Sandbox) -> Host:
    """Return the host of a submission. The references of its parts are in another worker."""
    parts = {name: assignment.lab.parts[name] for name in sources.elsewhere}
    if not parts:
        return Host(sandbox, sources)
    modules = {}
    for folder in parts.values():
        part = assignment.parts[folder]
        modules[folder] = (part.path.name, part.filename, part.source())
    references = Sources(next(iter(modules)), modules, parts)
    return Host(sandbox, sources, PartsHost(sandbox, references))
