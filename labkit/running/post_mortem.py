"""Where `pytest --pdb` stops: in the frame of the code under test, or in that of the test."""

from collections.abc import Collection
from types import TracebackType

import pytest

from labkit.running.trace import Failure


def students_frames(
    failed: pytest.ExceptionInfo[BaseException], code: str, test_file: str
) -> pytest.ExceptionInfo[BaseException]:
    """Return what a debugger should look at after a failure.

    Where the code under test raised, that is its exception, down to its own deepest line; else the
    failure itself, down to the test's deepest line, where the trace is at hand.

    Args:
        failed: what the test ended with.
        code: file name of the code under test.
        test_file: that of the test.
    """
    error = failed.value
    raised = error.raised if isinstance(error, Failure) else None
    if raised is not None and raised.error is not None:
        error = raised.error
    frames = _frames(error)
    for name in (code, test_file):
        numbers = [i for i, frame in enumerate(frames) if _file(frame) == name]
        if numbers:
            tb = _chained(frames[numbers[0] : numbers[-1] + 1])
            return pytest.ExceptionInfo.from_exception(error.with_traceback(tb))
    return failed


def last_frame(failed: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    """Return a failure that knows only where it was raised."""
    tb = _chained(_frames(failed.value)[-1:])
    return pytest.ExceptionInfo.from_exception(failed.value.with_traceback(tb))


def _frames(error: BaseException) -> list[TracebackType]:
    frames = []
    frame = error.__traceback__
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    return frames


def _file(frame: TracebackType) -> str:
    return frame.tb_frame.f_code.co_filename


def _chained(frames: Collection[TracebackType]) -> TracebackType | None:
    chain: TracebackType | None = None
    for frame in reversed([*frames]):
        chain = TracebackType(chain, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chain
