"""The two ends of a channel: on one thread, on a hand-stepped event loop, or on two threads, one
interrupted.

The reader in asyncio is a task on an event loop that is stepped by hand. It sleeps as a real one
does: it goes on only when it is woken. Time passes only when a test says so.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import islice
from types import FrameType
from typing import Any

from mini_vllm.text.events import Chunk

Calls = Sequence[Sequence[Any]]

# Of an event loop that is run until it sleeps.
_MOST_TURNS = 1_000
# For a thread that cannot go on, because the one that waits for it holds a lock that is not seen.
_MOST_WAIT_SECONDS = 0.01
_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)
# The tasks that were begun, and the loops on which they run.
_left: "list[tuple[SteppedLoop, asyncio.Task[None]]]" = []


class ClientGoneError(Exception):
    """What the body of a reading task raises, in a test."""


class Ends:
    """Both ends of a channel: whoever writes, as on an engine's thread, and whoever reads."""

    def __init__(self, channel: Any) -> None:
        _end_what_is_left()
        self._channel = channel
        self._pushed: list[Chunk] = []
        self._loop = SteppedLoop()
        self._task: asyncio.Task[None] | None = None
        self._received: list[Chunk | None] = []

    def push(self, text: str, *token_ids: int, finish_reason: str | None = None) -> Any:
        """Push a chunk."""
        self._pushed.append(Chunk(text, token_ids, finish_reason))
        return self._channel.push(self._pushed[-1])

    def push_many(self, count: int) -> int:
        """Push so many chunks of 1,000 characters and 20 ids; return how many the channel took."""
        chunks = (Chunk(f"{number:1000}", (number,) * 20) for number in range(count))
        return sum(self._channel.push(chunk) is True for chunk in chunks)

    @property
    def pushed(self) -> list[Chunk]:
        """The chunks that were pushed, as they are now."""
        return [*self._pushed]

    def finish(self, reason: str) -> Any:
        """Finish the channel."""
        return self._channel.finish(reason)

    def cancel(self) -> Any:
        """Cancel the channel."""
        return self._channel.cancel()

    def try_pop(self) -> Any:
        """Read a chunk."""
        return self._channel.try_pop()

    def pop_many(self, most: int) -> tuple[int, int, int]:
        """Read to the end; return how many chunks and characters those are, and their ids' sum."""
        count = length = total = 0
        for chunk in islice(iter(self._channel.try_pop, None), most):
            count, length, total = count + 1, length + len(chunk.text), total + sum(chunk.token_ids)
            if chunk.finish_reason is not None:
                break
        return count, length, total

    @property
    def state(self) -> Any:
        """The channel's state."""
        return self._channel.state

    def read(self) -> None:
        """Begin a task that reads to the end."""
        self._begin(_read)

    def read_some(self, count: int) -> None:
        """Begin a task that breaks off after so many chunks."""
        self._begin(_read, count)

    def read_and_raise(self, count: int) -> None:
        """Begin a task that raises after so many chunks, as when a client has gone."""
        self._begin(_read, count, ClientGoneError())

    def read_with_pings(self, seconds: int) -> None:
        """Begin a task that waits so long for each chunk, sends a ping and waits again."""
        self._begin(_read_with_pings, seconds)

    def run(self) -> list[Chunk | None]:
        """Let the event loop run until it sleeps; return what the task received, None for a ping.

        It does not run if nobody has woken it.
        """
        self._loop.run_until_asleep()
        task = self._task
        if task is not None and task.done() and not task.cancelled():
            error = task.exception()
            if error is not None and not isinstance(error, ClientGoneError):
                raise error
        received = self._received[:]
        self._received.clear()
        return received

    def turn(self) -> None:
        """Let the event loop run what is due now, and not yet what comes of that.

        It does not run if nobody has woken it.
        """
        self._loop.run_one_turn()

    @property
    def reader(self) -> str:
        """What the reading task does: `reads`, or it has `ended`, `raised`, or is `cancelled`."""
        if self._task is None or not self._task.done():
            return "reads"
        if self._task.cancelled():
            return "cancelled"
        return "ended" if self._task.exception() is None else "raised"

    def cancel_task(self) -> None:
        """Cancel the reading task, as a server does when its client disconnects."""
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self._loop.now += seconds
        self._loop.wake()

    def close_loop(self) -> None:
        """Close the event loop, whatever still runs on it."""
        self._loop.close()

    def _begin(self, reading: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._task = self._loop.create_task(reading(self._channel, self._received, *args))
        _left.append((self._loop, self._task))
        self._loop.wake()


def _end_what_is_left() -> None:
    """End the tasks of earlier runs, as `asyncio.run` does: none is left to garbage collection."""
    while _left:
        loop, task = _left.pop()
        # What it raises on its way out is nobody's concern.
        with suppress(Exception):
            loop.end(task)


async def _read(
    channel: Any, received: list[Any], count: int = 0, error: Exception | None = None
) -> None:
    async with channel.reader() as chunks:
        async for chunk in chunks:
            received.append(chunk)
            count -= 1
            if count == 0 and error is not None:
                raise error
            if count == 0:
                break


async def _read_with_pings(channel: Any, received: list[Any], seconds: int) -> None:
    async with channel.reader() as chunks:
        while True:
            try:
                chunk = await asyncio.wait_for(anext(chunks), seconds)
            except StopAsyncIteration:
                return
            except TimeoutError:
                chunk = None
            received.append(chunk)


class Several:
    """The ends of several channels, told apart by number."""

    def __init__(self, *ends: Ends) -> None:
        self._ends = ends

    def on(self, number: int, name: str, *args: Any) -> Any:
        """Make a call of one of them."""
        return _call(self._ends[number], name, args)


class SteppedLoop(asyncio.BaseEventLoop):
    """An event loop without files and clocks.

    Attributes:
        now: its time, in seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        # Where a loop asks what has happened outside, and sleeps meanwhile.
        self._selector = self
        self.now = 0.0
        self._woken = False
        self._turns = 0
        self._error: BaseException | None = None
        self.set_exception_handler(SteppedLoop._note)

    def __del__(self) -> None:
        """Leave out what Python says of a loop that was not closed."""

    def time(self) -> float:
        """Return its time."""
        return self.now

    def wake(self) -> None:
        """Let it go on; any thread."""
        self._woken = True

    def run_until_asleep(self) -> None:
        """Run, if it is awake, until it has nothing to do.

        Raises:
            RuntimeError: it never sleeps.
            BaseException: what a callback raised.
        """
        if not self._woken:
            return
        self._turns = 0
        self.run_forever()
        if self._turns > _MOST_TURNS:
            raise RuntimeError("the reader asks again and again; its event loop never sleeps")
        error, self._error = self._error, None
        if error is not None:
            raise error

    def run_one_turn(self) -> None:
        """Run once what is due, if it is awake; what that has made due waits."""
        if self._woken:
            self.call_soon(self.stop)
            self.run_forever()
            self.wake()

    def end(self, task: "asyncio.Task[None]") -> None:
        """Cancel a task, unless it is done, and let it come to its end."""
        if task.done():
            return
        if self.is_closed():
            # It cannot run any more; its coroutine can be told so.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.get_coro().close()  # type: ignore[union-attr]
        else:
            self.call_soon_threadsafe(task.cancel)
            self.run_until_asleep()

    def select(self, timeout: float | None) -> list[Any]:
        """Stop the loop where it would sleep."""
        self._turns += 1
        if (timeout != 0 and not self._woken) or self._turns > _MOST_TURNS:
            self.stop()
        self._woken = False
        return []

    def _write_to_self(self) -> None:
        self.wake()

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _note(self, context: dict[str, Any]) -> None:
        self._error = context.get("exception")


class _Lock:
    """A lock that tells when a thread has to wait for it."""

    def __init__(self, lock: Any, busy: threading.Event) -> None:
        self._lock = lock
        self._busy = busy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    def __enter__(self) -> Any:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> Any:
        """Acquire the lock."""
        taken = self._lock.acquire(blocking=False)
        if taken or not blocking:
            return taken
        self._busy.set()
        return self._lock.acquire(blocking, timeout)


class Race:
    """Two threads on one channel: the first stops somewhere, and the second runs meanwhile, to its
    end or to a lock that the first one holds.

    Where no thread can be started, they run one after the other.

    Args:
        channel: the channel.
        point: before which line of the channel's module the first one stops, counted as it runs.
    """

    def __init__(self, channel: Any, point: int) -> None:
        self._channel = channel
        self._point = point
        self._ends = Ends(channel)
        self._reached = threading.Event()
        self._second_stands = threading.Event()
        self._error: BaseException | None = None
        for name, value in vars(channel).items():
            if isinstance(value, _LOCKS):
                setattr(channel, name, _Lock(value, self._second_stands))

    def run(self, before: Calls, first: Calls, second: Calls, after: Calls) -> list[list[Any]]:
        """Make the calls of `Ends`, those of `first` and `second` at once.

        Returns:
            What each call of `first` returned, of `second`, and of `after`.
        """
        self._do(before)
        answers: list[list[Any]] = [[], []]
        works = [lambda: self._lead(first, answers[0]), lambda: self._follow(second, answers[1])]
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread, work in zip(threads, works, strict=True):
            try:
                thread.start()
            except RuntimeError:
                self._reached.set()
                work()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        if self._error is not None:
            raise self._error
        return [*answers, self._do(after)]

    def _lead(self, calls: Calls, answers: list[Any]) -> None:
        sys.settrace(self._trace)
        try:
            answers += self._do(calls)
        except BaseException as error:
            self._error = error
        finally:
            sys.settrace(None)
            self._reached.set()

    def _follow(self, calls: Calls, answers: list[Any]) -> None:
        self._reached.wait()
        try:
            answers += self._do(calls)
        except BaseException as error:
            self._error = error
        finally:
            self._second_stands.set()

    def _do(self, calls: Calls) -> list[Any]:
        return [_call(self._ends, name, args) for name, *args in calls]

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Watch the lines of the channel's own module."""
        is_own = frame.f_globals.get("__name__") == type(self._channel).__module__
        return self._at_line if is_own else None

    def _at_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not self._reached.is_set():
            self._point -= 1
            if self._point < 0:
                self._reached.set()
                self._second_stands.wait(_MOST_WAIT_SECONDS)
        return self._at_line


def _call(ends: Ends, name: str, args: Sequence[Any]) -> Any:
    """Call a method, or read an attribute."""
    value = getattr(ends, name)
    return value(*args) if callable(value) else value
