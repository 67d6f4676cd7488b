"""The recording of a submission's failing test, made in the process that holds the submission."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from inspect import signature

from labkit.course.manifest import Test
from labkit.isolation.host import Host, WorkerError
from labkit.running.drive import Driver, Perform
from labkit.running.given import for_tests, read_given
from labkit.running.import_file import test_functions
from labkit.running.limits.time_limit import OverdueError
from labkit.running.recording.case_recording import describe, facts_of
from labkit.running.recording.recording import Recording
from labkit.running.recording.runs import RunsOfTest, shortened
from labkit.running.score import TEST_LIMIT, LabRun, Result, classify
from labkit.running.trace import Call, New, Trace

# The most steps of a recording, its most characters, and the most processor time to make it.
_MOST_STEPS = 2_000
_MOST_CHARACTERS = 600_000
_MOST_SECONDS = 60.0


def record_failure(run: LabRun, test: Test, host: Host) -> Recording | None:
    """Run a test again with the seed of a run, and return the recording of its failing case.

    It decides nothing: the submission may disturb the recorder, which is in its process.

    Returns:
        The recording without sources; None if the test passes, or makes no calls, or if the
        submission gives no recording.
    """
    runs = RunsOfTest()

    def perform(new: Sequence[New], calls: Sequence[Call], watch: str) -> Trace:
        calls = [*calls]
        return runs.note(partial(host.perform, new, calls, watch), new, calls, watch)

    try:
        with host.own_time.limit():
            result = _result(run, test, host, perform)
            of_test = runs.take()
            if result is None or not of_test:
                return None
            if result.failure is not None and result.failure.again is not None:
                with suppress(Exception):
                    result.failure.again()
            cases = shortened(runs.take() or of_test, of_test)
            # The case begins in a process without the objects of the test.
            host.close()
            host.begin(_MOST_SECONDS)
            if host.load() is not None:
                return None
            facts = facts_of(result, cases[0][-1].calls)
            recording = host.record(cases, facts, _MOST_STEPS, _MOST_CHARACTERS)
            host.end()
    except (WorkerError, OverdueError, MemoryError):
        return None
    describe(recording, run, test.name, result)
    return recording


def _result(run: LabRun, test: Test, host: Host, perform: Perform) -> Result | None:
    """Return the result of a test; None if it passes."""
    function = test_functions(run.lab.test_file)[test.name]
    seed = f"{run.seed}/{test.name}"
    host.begin(TEST_LIMIT if test.timeout is None else test.timeout, seed)
    if "lab" not in signature(function).parameters or host.load() is not None:
        return None
    try:
        function(Driver(perform, seed, partial(for_tests, read_given(run.lab))))
        host.end()
    except WorkerError as error:
        return Result(error.kind, str(error))
    except Exception as error:
        # An unexpected value may end a test in any way.
        return classify(error)
    return None
