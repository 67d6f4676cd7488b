"""The frame in which `pytest --pdb` stops: that of the code under test, or that of the test."""

from collections.abc import Collection
from types import TracebackType

import pytest

from labkit.running.trace import Failure


def students_frames(
    failed: pytest.ExceptionInfo[BaseException], code: str, test_file: str
) -> pytest.ExceptionInfo[BaseException]:
    """Return the exception that a debugger should show after a failure.

    If the code under test raised, it is that exception, down to the code's own deepest line;
    otherwise it is the failure itself, down to the test's deepest line, where the trace is visible.

    Args:
        failed: the exception that ended the test.
        code: file name of the code under test.
        test_file: file name of the test.
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
    """Return a failure with only its last frame."""
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
