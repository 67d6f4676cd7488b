"""The recording of a lab's first failure, made in a process of its own.

Some code cannot be interrupted: a call into C that does not end, code that catches every exception,
`os._exit`, a crash of Python. The process that runs it ends without a recording. But it shares how
far it is: the test, the run of the test, and the event of the recorder. The next process goes as
far, and stops there.

But: where processes cannot fork (Windows, a browser), the recording is made in this process.
"""

import errno
import mmap
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn, cast

from labkit.course.lab import Lab
from labkit.running import platform
from labkit.running.limits.time_limit import processor_seconds
from labkit.running.recording.case_recording import End
from labkit.running.recording.failing_case import (
    FirstFailure,
    Stop,
    check_test,
    first_failure,
    record_end,
    recording_of,
)
from labkit.running.recording.recording import Recording
from labkit.running.recording.replay import MOST_SECONDS

# The recording, or the exit code and the reason why there is none.
Outcome = Recording | tuple[int, str]
# The items of the shared numbers.
_TEST, _RUN, _EVENTS, _IS_ENDING, _IS_OVER = range(5)
_LOOK_SECONDS = 0.1
# The processor time without an event after which a recording is hung: at first, in a case that did
# not end before, and if the recorder has tried to end it.
_HUNG_SECONDS, _AGAIN_SECONDS, _ENDING_SECONDS = MOST_SECONDS + 2, 3.0, 0.5
_MOST_PROCESSES = 4
_HUNG, _ENDED = "did not end and could not be interrupted", "ended Python"
_DISTURBED = "wrote into the pipe of its recording"


def record_apart(
    lab: Lab,
    root: Path,
    implementation: str,
    options: list[str],
    test: str,
    why_not: Callable[[Lab, FirstFailure], tuple[int, str] | None],
) -> Outcome:
    """Return the recording of the first failure of a lab, or why there is none.

    Args:
        lab: the lab.
        root: the repository.
        implementation: as `LAB_IMPL`.
        options: of pytest.
        test: the only test to run; "" for all.
        why_not: returns the exit code and the reason if a session has nothing to record.

    Raises:
        UsageError: the lab has no such test.
        KeyboardInterrupt: Ctrl+C was pressed, and there are no steps to keep.
    """

    def outcome(place: MutableSequence[int], stop: Stop | None, end: End | None,
                leave: Callable[[Outcome], NoReturn] | None) -> Outcome:  # fmt: skip
        only = test if stop is None else stop.test
        failing = first_failure(
            lab, root, implementation, *options, test=only, stop=stop, place=place
        )
        place[_IS_OVER] = 1
        if (reason := why_not(lab, failing)) is not None:
            return reason
        if end is not None and leave is not None:
            record_end(failing, end, leave)
        return recording_of(failing)

    if test:
        check_test(lab, test)
    if not platform.can_fork():
        return outcome([0] * 5, None, None, None)
    stop, end = None, None
    for _ in range(_MOST_PROCESSES):
        shared = memoryview(mmap.mmap(-1, 8 * 5)).cast("Q")
        place = cast("MutableSequence[int]", shared)
        result, words = _in_process(outcome, place, stop, end)
        if result is not None:
            return result
        if not place[_RUN] or words == _DISTURBED:
            break
        if not place[_IS_OVER]:
            stop = Stop(lab.tests[place[_TEST] - 1].name, place[_RUN], words)
        elif place[_EVENTS]:
            kind = "exception" if words == _ENDED else "loop"
            end = End(place[_EVENTS], bool(place[_IS_ENDING]), kind, words)
        else:
            break
    name = Path(implementation).name if "/" in implementation else implementation
    at = f" in {lab.tests[place[_TEST] - 1].name}" if place[_TEST] else ""
    return 1, f"{lab.label}: the code of {name} {words}{at}, so that there is nothing to show."


def _in_process(
    outcome: Callable[..., Outcome],
    place: MutableSequence[int],
    stop: Stop | None,
    end: End | None,
) -> tuple[Outcome | None, str]:
    """Return the outcome in a process; None if it gave none, with how it ended, as a verb."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    args = (receiver, sender, outcome, place, stop, end)
    process = context.Process(target=_send, args=args, daemon=True)
    sys.stdout.flush()
    with _left_to(process):
        process.start()
        sender.close()
        is_hung = _wait(receiver, process, place, again=stop is not None or end is not None)
        result, words = None, ""
        try:
            result = None if is_hung else receiver.recv()
        except (EOFError, ConnectionError):
            pass
        except Exception:
            # Code that writes to every open file may have written anything.
            words = _DISTURBED
            process.kill()
        process.join()
    if process.exitcode == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    is_hung = is_hung or process.exitcode == -signal.SIGKILL
    return result, words or (_HUNG if is_hung else _ENDED)


def _send(
    receiver: Connection,
    sender: Connection,
    outcome: Callable[..., Outcome],
    place: Any,
    stop: Any,
    end: Any,
) -> None:
    """Send the outcome; this is all that the process does."""
    here = os.getpid()
    # If the other process is killed, a pipe with a reader in this one would block this one forever.
    receiver.close()

    def leave(result: Outcome) -> NoReturn:
        sender.send(result)
        os._exit(0)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sender.send(outcome(place, stop, end, leave))
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)
    except OSError as error:
        # The pipe has no reader any more, or the code has closed every open file.
        if error.errno not in (errno.EPIPE, errno.EBADF):
            raise
        os._exit(1)
    finally:
        if os.getpid() != here:
            # The code under test has forked.
            os._exit(0)


def _wait(
    receiver: Connection, process: BaseProcess, place: MutableSequence[int], *, again: bool
) -> bool:
    """Wait for the outcome or the end of a process; end a hung recording, and return whether it
    was hung. The tests have a watchdog of their own.
    """
    before, used, began = (0, 0), 0.0, time.monotonic()
    while not receiver.poll(_LOOK_SECONDS):
        now, seconds = (place[_EVENTS], place[_IS_ENDING]), processor_seconds(process.pid or 0)
        if now != before or not place[_IS_OVER]:
            before, used, began = now, seconds, time.monotonic()
        idle = (time.monotonic() - began) / platform.REAL_TO_PROCESSOR
        most = _AGAIN_SECONDS if again else _HUNG_SECONDS
        if max(seconds - used, idle) > (_ENDING_SECONDS if place[_IS_ENDING] else most):
            process.kill()
            return True
    return False


@contextmanager
def _left_to(process: BaseProcess) -> Iterator[None]:
    """Leave Ctrl+C to a process; a second Ctrl+C ends it."""
    count = 0

    def interrupt(number: int, frame: object) -> None:
        nonlocal count
        count += 1
        if count > 1:
            process.kill()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
