"""One lab's tests on one submission, with the submission behind a pipe.

The functions of `test_lab.py` run here, unchanged; the code that they drive runs in the worker.
They are called without pytest, whose isolation is not needed: the submission can patch nothing
here.
"""

import gc
import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

from labkit.course.manifest import Test
from labkit.errors import InfrastructureError, LoadFailure
from labkit.isolation.host import Host, WorkerError
from labkit.running.drive import Driver
from labkit.running.given import for_tests, read_given
from labkit.running.import_file import test_functions
from labkit.running.limits.time_limit import OverdueError
from labkit.running.reporting.explain import in_words
from labkit.running.result_kind import ResultKind
from labkit.running.score import (
    TEST_LIMIT,
    TOO_LONG,
    LabRun,
    NotRunError,
    Result,
    Timeouts,
    classify,
)

_LABKIT = str(Path(__file__).parents[1])
# A test, its function, its seed.
Planned = tuple[Test, Callable[..., object], str]
_Given = Callable[[], ModuleType]


def run_isolated(run: LabRun, host: Host, more: Sequence[Planned]) -> None:
    """Run every test of a lab, then `more`; put the results into `run`.

    Args:
        run: the lab, the seed of its tests, and the results.
        host: the host of the submission.
        more: tests that do not belong to the lab.
    """
    functions = test_functions(run.lab.test_file)
    given = partial(for_tests, read_given(run.lab))
    timeouts = Timeouts()
    for test, function, seed in [
        *((test, functions[test.name], run.seed) for test in run.lab.tests),
        *more,
    ]:
        try:
            timeouts.check(test.task)
            result = _run_test(function, test, seed, host, given)
        except NotRunError as error:
            result = classify(error)
        if result.kind is ResultKind.TIMEOUT and test.timeout is None:
            timeouts.add(test.task)
        run.results[test.name] = result


def _run_test(
    function: Callable[..., object], test: Test, seed: str, host: Host, given: _Given
) -> Result:
    """Return the result of a test, even if the submission or the test misbehaves."""
    host.begin(TEST_LIMIT if test.timeout is None else test.timeout, f"{seed}/{test.name}")
    try:
        with host.own_time.limit(), _without_collections():
            return in_words(_outcome(function, f"{seed}/{test.name}", host, given))
    except InfrastructureError:
        raise
    except BaseException as error:
        if _comes_from_outside(error):
            raise
        # The time limit may have struck while an answer was read.
        host.close()
        return _unforeseen(error)


def _outcome(function: Callable[..., object], seed: str, host: Host, given: _Given) -> Result:
    try:
        if "lab" in inspect.signature(function).parameters:
            failure = host.load()
            if failure is not None:
                raise LoadFailure(failure)
            function(Driver(host.perform, seed, given))
            host.end()
        else:
            function()
    except WorkerError as error:
        advice = f". {TOO_LONG}" if error.kind is ResultKind.TIMEOUT else ""
        return Result(error.kind, f"{error}{advice}")
    except (AssertionError, LoadFailure) as error:
        return classify(error)
    return Result(ResultKind.PASSED)


def _unforeseen(error: BaseException) -> Result:
    """Return the result of a test that did not end by a broken rule."""
    name = type(error).__name__
    if isinstance(error, OverdueError):
        return Result(ResultKind.TIMEOUT, str(error))
    if isinstance(error, MemoryError | RecursionError):
        return Result(
            ResultKind.RAISED, f"its return value is too large or too deep to be read ({name})"
        )
    # A mistake of the test, or an unexpected value. Grading the reference distinguishes them.
    result = classify(error)
    return replace(result, message=f"the test itself ended with {result.message}")


def _comes_from_outside(error: BaseException) -> bool:
    """Return whether a signal is meant to end this process, and not the test."""
    if not isinstance(error, KeyboardInterrupt | SystemExit):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, SystemExit):
        # A handler of ours raised it.
        return frames[-1].f_code.co_filename.startswith(_LABKIT)
    # Python's own handler raises without a line of its own in the traceback.
    *_, last = traceback.extract_tb(error.__traceback__)
    return not (last.line or "").lstrip().startswith("raise")


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause the garbage collector: the values of runs are many, and hold no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
