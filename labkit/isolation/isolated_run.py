"""One lab's tests on one submission, with the submission behind a pipe.

The functions of `test_lab.py` run here, unchanged; what they drive runs in the worker. They are
called without pytest, whose isolation is not needed: the submission can patch nothing here.
"""

import inspect
from collections.abc import Callable, Collection, Sequence

from labkit.course.manifest import Test
from labkit.errors import InfrastructureError, LoadFailure
from labkit.isolation.batches import Batches
from labkit.isolation.host import Host, WorkerError
from labkit.running.drive import Driver
from labkit.running.lab_tests import test_functions
from labkit.running.score import (
    ENOUGH_TIMEOUTS,
    TEST_LIMIT,
    TIMEOUTS_ALLOWED,
    TOO_LONG,
    LabRun,
    NotRunError,
    Result,
    classify,
)
from labkit.running.shrink import ahead

# A test, its function, its seed.
Planned = tuple[Test, Callable[..., object], str]


def run_isolated(
    run: LabRun, host: Host, more: Sequence[Planned] = (), only: Collection[str] | None = None
) -> None:
    """Run every test of a lab, then `more`; put the results into `run`.

    Args:
        run: the lab, the seed of its tests, and the results.
        host: of the submission.
        more: tests that do not belong to the lab.
        only: the names of those to run; all of them if it is None.
    """
    functions = test_functions(run.lab.test_file)
    timeouts = 0
    for test, function, seed in [
        *((test, functions[test.name], run.seed) for test in run.lab.tests),
        *more,
    ]:
        if only is not None and test.name not in only:
            continue
        if timeouts >= TIMEOUTS_ALLOWED:
            result = classify(NotRunError(ENOUGH_TIMEOUTS))
        else:
            result = _run_test(function, test, seed, host)
        timeouts += result.kind == "timeout" and test.timeout is None
        run.results[test.name] = result


def _run_test(function: Callable[..., object], test: Test, seed: str, host: Host) -> Result:
    drawn = f"{seed}/{test.name}"
    host.begin(TEST_LIMIT if test.timeout is None else test.timeout, drawn)
    try:
        if "lab" in inspect.signature(function).parameters:
            failure = host.load()
            if failure is not None:
                raise LoadFailure(failure)
            _drive(function, drawn, host)
            host.end()
        else:
            function()
    except WorkerError as error:
        advice = f". {TOO_LONG}" if error.kind == "timeout" else ""
        return Result(error.kind, f"{error}{advice}")
    except InfrastructureError:
        raise
    except Exception as error:
        return classify(error)
    return Result("passed")


def _drive(function: Callable[..., object], seed: str, host: Host) -> None:
    """Call a test, with the submission behind the pipe as its `lab`."""
    batches = Batches(host)
    lab = Driver(batches.perform, seed)
    batches.random = lab.random
    token = ahead.set(batches.cases)
    try:
        function(lab)
    finally:
        ahead.reset(token)
