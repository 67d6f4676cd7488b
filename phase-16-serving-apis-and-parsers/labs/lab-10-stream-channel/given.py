"""The two ends of a channel: on one thread, on a hand-stepped event loop, or on two threads.

A reading task runs on an event loop that the test steps by hand. Like any event loop, it sleeps
until a call wakes it. Its time advances only when the test says so.
"""

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from itertools import islice, repeat
from types import FrameType
from typing import Any

from mini_vllm.text.events import Chunk

Calls = Sequence[Sequence[Any]]
Reader = AbstractAsyncContextManager[Any]

# The wait for a second thread that is blocked by a lock which `_watch_locks` did not find.
_MOST_WAIT_SECONDS = 0.01
_LOCKS = (
    type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore
)  # fmt: skip
# The reading tasks that may still run, and their event loops.
_left: "list[tuple[SteppedLoop, asyncio.Task[None]]]" = []


class ClientGoneError(Exception):
    """An error that the body of a reading task raises, in a test."""


class ServerStopsError(BaseException):
    """An error like KeyboardInterrupt: it is not a subclass of `Exception`."""


class Ends:
    """Both ends of a channel: the writer, as on an engine's thread, and the reader.

    Args:
        channel: the channel under test.
    """

    def __init__(self, channel: Any) -> None:
        _end_unfinished_tasks()
        self._channel = channel
        self._pushed: list[Chunk] = []
        self._loop = SteppedLoop()
        self._task: asyncio.Task[None] | None = None
        self._reader: Reader | None = None
        self._received: list[Chunk | None] = []
        self._waits: list[asyncio.Task[Chunk]] = []

    def push(self, text: str, *token_ids: int, finish_reason: str | None = None) -> Any:
        """Push a chunk."""
        self._pushed.append(Chunk(text, token_ids, finish_reason))
        return self._channel.push(self._pushed[-1])

    def push_refused(self, text: str, token_id: int, finish_reason: str) -> str | None:
        """Push a terminal chunk; return the message of the ValueError, or None without one."""
        try:
            self._channel.push(Chunk(text, (token_id,), finish_reason))
        except ValueError as error:
            return str(error)
        return None

    def push_many(self, count: int) -> int:
        """Push `count` chunks of 1,000 characters and 20 ids; return how many were accepted."""
        chunks = (Chunk(f"{number:1000}", (number,) * 20) for number in range(count))
        return sum(self._channel.push(chunk) is True for chunk in chunks)

    def push_small(self, count: int) -> int:
        """Push `count` chunks of one character and one id; return how many were accepted."""
        # The garbage collector would visit all unread chunks again and again.
        gc.disable()
        try:
            return [*map(self._channel.push, repeat(Chunk("a", (1,)), count))].count(True)
        finally:
            gc.enable()

    def keeps(self, count: int, at_once: int = 1, *, by_task: bool = False) -> int:
        """Push `count` chunks and read them after every `at_once`, by `try_pop` or by the reading
        task; return how many of them the channel still references.
        """
        texts = [f"chunk {number}" for number in range(count + 1)]
        for number, text in enumerate(texts[1:], 1):
            self._channel.push(Chunk(text, ()))
            while number % at_once == 0 and (self.run() if by_task else self.try_pop()):
                pass
        del text
        never_pushed, *references = [sys.getrefcount(text) for text in texts]
        return sum(number > never_pushed for number in references)

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
        """Read to the end; return the count of chunks and characters, and the sum of the ids."""
        count = length = total = 0
        for chunk in islice(iter(self._channel.try_pop, None), most):
            count, length, total = count + 1, length + len(chunk.text), total + sum(chunk.token_ids)
            if chunk.finish_reason is not None:
                break
        return count, length, total

    def pop_small(self, most: int) -> int:
        """Read at most `most` chunks; return how many there were."""
        return len([*islice(iter(self._channel.try_pop, None), most)])

    @property
    def state(self) -> Any:
        """The channel's state."""
        return self._channel.state

    def call_reader(self) -> None:
        """Call `reader`, without a running event loop; the next task enters what it returned."""
        self._reader = self._channel.reader()

    def read(self) -> None:
        """Begin a task that reads to the end."""
        self._begin(_read)

    def read_some(self, count: int) -> None:
        """Begin a task that leaves the block by `break` after `count` chunks."""
        self._begin(_read, count)

    def read_and_raise(self, count: int, kind: str = "Exception") -> None:
        """Begin a task that raises an error of that kind after `count` chunks."""
        errors = {"Exception": ClientGoneError, "BaseException": ServerStopsError}
        self._begin(_read, count, errors[kind]())

    def read_and_close(self, count: int) -> None:
        """Begin a task that reads through a generator, and closes it after `count` chunks."""
        self._begin(_read_and_close, count)

    def read_and_stay(self, count: int) -> None:
        """Begin a task that stays in the block after `count` chunks, and waits for a socket."""
        self._begin(_read_and_stay, count)

    def read_with_pings(self, seconds: int) -> None:
        """Begin a task that gives up a wait after so many seconds, sends a ping, waits again."""
        self._begin(_read_with_pings, seconds)

    def read_in_waits(self) -> None:
        """Begin a task that waits again if `give_up` has ended its wait."""
        self._begin(_read_in_waits, self._waits)

    def give_up(self) -> None:
        """Have the event loop give up the wait of `read_in_waits`."""
        if self._waits:
            self._loop.call_soon_threadsafe(self._waits[-1].cancel)

    def run(self) -> list[Chunk | None]:
        """Let the event loop run until it sleeps; return the task's chunks, None for a ping.

        The loop does not run unless a call has woken it.
        """
        self._loop.run_until_asleep()
        task = self._task
        if task is not None and task.done() and not task.cancelled():
            error = task.exception()
            if error is not None and not isinstance(error, ClientGoneError | ServerStopsError):
                raise error
        received = self._received[:]
        self._received.clear()
        return received

    def run_small(self) -> int:
        """Do the same, in any number of turns; return how many chunks the task received."""
        self._loop.most_turns = sys.maxsize
        return len(self.run())

    def turn(self) -> None:
        """Let the event loop run the callbacks that are due, without those that they schedule.

        The loop does not run unless a call has woken it.
        """
        self._loop.run_one_turn()

    @property
    def reader(self) -> str:
        """The state of the reading task: `reads`, `ended`, `raised` or `cancelled`."""
        if self._task is None or not self._task.done():
            return "reads"
        if self._task.cancelled():
            return "cancelled"
        return "ended" if self._task.exception() is None else "raised"

    @property
    def timers(self) -> int:
        """How many timers are set on the event loop."""
        return sum(not timer.cancelled() for timer in self._loop._scheduled)  # type: ignore[attr-defined]

    @property
    def wake_ups(self) -> int:
        """How many times `call_soon_threadsafe` of the event loop has been called."""
        return self._loop.wake_ups

    def cancel_task(self) -> None:
        """Cancel the reading task, as a server does when its client disconnects."""
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self._loop.now += seconds
        self._loop.wake()

    def close_loop(self) -> None:
        """Close the event loop, with the reading task unfinished."""
        self._loop.close()

    def _begin(self, reading: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        made, self._reader = self._reader, None
        reader = self._channel.reader if made is None else lambda: made
        self._task = self._loop.create_task(reading(reader, self._received, *args))
        _left.append((self._loop, self._task))
        self._loop.wake()


def _end_unfinished_tasks() -> None:
    """End the tasks of earlier runs, as `asyncio.run` does, before they are garbage-collected."""
    while _left:
        loop, task = _left.pop()
        # Errors of a task that is being ended do not concern any test.
        with suppress(Exception, ServerStopsError):
            loop.end(task)


async def _read(
    reader: Callable[[], Reader],
    received: list[Any],
    count: int = 0,
    error: BaseException | None = None,
) -> None:
    async with reader() as chunks:
        async for chunk in chunks:
            received.append(chunk)
            count -= 1
            if count == 0 and error is not None:
                raise error
            if count == 0:
                break


async def _read_and_close(reader: Callable[[], Reader], received: list[Any], count: int) -> None:
    async def passed_on() -> Any:
        async with reader() as chunks:
            async for chunk in chunks:
                yield chunk

    generator = passed_on()
    async for chunk in generator:
        received.append(chunk)
        count -= 1
        if count == 0:
            # Closing raises GeneratorExit at the `yield`, inside the block.
            await generator.aclose()


async def _read_and_stay(reader: Callable[[], Reader], received: list[Any], count: int) -> None:
    async with reader() as chunks:
        for _ in range(count):
            received.append(await anext(chunks))
        await asyncio.get_running_loop().create_future()


async def _read_with_pings(reader: Callable[[], Reader], received: list[Any], seconds: int) -> None:
    async with reader() as chunks:
        while True:
            try:
                chunk = await asyncio.wait_for(anext(chunks), seconds)
            except StopAsyncIteration:
                return
            except TimeoutError:
                chunk = None
            received.append(chunk)


async def _read_in_waits(
    reader: Callable[[], Reader], received: list[Any], waits: "list[asyncio.Task[Chunk]]"
) -> None:
    async def next_of(chunks: Any) -> Any:
        return await anext(chunks)

    async with reader() as chunks:
        while True:
            wait = asyncio.get_running_loop().create_task(next_of(chunks))
            waits[:] = [wait]
            try:
                await asyncio.wait(waits)
            finally:
                wait.cancel()
            if wait.cancelled():
                received.append(None)
            elif isinstance(wait.exception(), StopAsyncIteration):
                return
            else:
                received.append(wait.result())


class Several:
    """The ends of several channels, chosen by number."""

    def __init__(self, *ends: Ends) -> None:
        self._ends = ends

    def on(self, number: int, name: str, *args: Any) -> Any:
        """Make a call on the ends with that number."""
        return _call(self._ends[number], name, args)


class SteppedLoop(asyncio.BaseEventLoop):
    """An event loop without files and clocks.

    Attributes:
        now: its time, in seconds.
        most_turns: if it needs more turns before it sleeps, it is taken to poll.
        wake_ups: how many times `call_soon_threadsafe` has been called.
    """

    def __init__(self) -> None:
        super().__init__()
        # An event loop learns from its selector of outside events, and sleeps there.
        self._selector = self
        self.now = 0.0
        self.most_turns = 1_000
        self.wake_ups = 0
        self._woken = False
        self._woken_lock = threading.Lock()
        self._turns = 0
        self._error: BaseException | None = None
        self.set_exception_handler(SteppedLoop._note)

    def __del__(self) -> None:
        """Omit Python's warning about a loop that was not closed."""

    def time(self) -> float:
        """Return its time."""
        return self.now

    def wake(self) -> None:
        """Let it continue; any thread may call this."""
        with self._woken_lock:
            self._woken = True

    def call_soon_threadsafe(self, *args: Any, **options: Any) -> asyncio.Handle:
        """Schedule a callback from any thread, and count the call."""
        self.wake_ups += 1
        return super().call_soon_threadsafe(*args, **options)

    def run_until_asleep(self) -> None:
        """Run, if it is awake, until it has nothing to do.

        Raises:
            RuntimeError: it never sleeps.
            BaseException: a callback raised it.
        """
        if not self._woken:
            return
        self._turns = 0
        self.run_forever()
        if self._turns > self.most_turns:
            raise RuntimeError("the reader asks again and again; its event loop never sleeps")
        error, self._error = self._error, None
        if error is not None:
            raise error

    def run_one_turn(self) -> None:
        """Run the callbacks that are due, if it is awake; those that they schedule stay due."""
        if self._woken:
            self.call_soon(self.stop)
            self.run_forever()
            self.wake()

    def end(self, task: "asyncio.Task[None]") -> None:
        """Cancel a task, unless it is done, and let it end."""
        if task.done():
            return
        if self.is_closed():
            # The task cannot run any more, but its coroutine can still be closed.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.get_coro().close()  # type: ignore[union-attr]
        else:
            self.call_soon_threadsafe(task.cancel)
            self.run_until_asleep()

    def select(self, timeout: float | None) -> list[Any]:
        """Stop the loop at the point at which it would sleep."""
        self._turns += 1
        with self._woken_lock:
            is_asleep = timeout != 0 and not self._woken
            self._woken = False
        if is_asleep or self._turns > self.most_turns:
            self.stop()
        return []

    def _write_to_self(self) -> None:
        self.wake()

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _note(self, context: dict[str, Any]) -> None:
        self._error = context.get("exception")


class _Lock:
    """A lock that sets an event when a thread has to wait for it."""

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
        return self._lock.acquire() if timeout == -1 else self._lock.acquire(timeout=timeout)


def _watch_locks(owner: Any, busy: threading.Event, deep: int = 1) -> None:
    """Replace the locks in the attributes of an object, and in their lists and attributes."""
    for name in [*getattr(owner, "__dict__", ()), *getattr(type(owner), "__slots__", ())]:
        value = getattr(owner, name, None)
        if isinstance(value, _LOCKS):
            setattr(owner, name, _Lock(value, busy))
        elif isinstance(value, list):
            value[:] = [_Lock(item, busy) if isinstance(item, _LOCKS) else item for item in value]
        elif deep and type(value).__module__ == type(owner).__module__:
            _watch_locks(value, busy, deep - 1)


class Race:
    """Two threads on one channel: at a line the first thread stops, and the second thread runs
    until it has made all its calls, or has to wait for a lock that the first thread holds.

    If no thread can be started, the calls of the first thread are made first.

    Args:
        channel: the channel.
        point: the first thread stops before this line that it runs in the channel's module,
            counted from 0; None if it does not stop.
    """

    def __init__(self, channel: Any, point: int | None) -> None:
        self._channel = channel
        self._module = type(channel).__module__
        self._point = point
        self._lines = 0
        self._interrupt: Callable[[], None] | None = None
        self._second_stopped = threading.Event()
        self._error: Exception | None = None

    def lines(self, before: Calls, first: Calls) -> int:
        """Make the calls on one thread; return how many lines `first` runs."""
        ends = Ends(self._channel)
        _do(ends, before)
        self._do_traced(ends, first)
        return self._lines

    def run(self, before: Calls, first: Calls, second: Calls, after: Calls) -> list[list[Any]]:
        """Make the calls of `Ends`, with those of `first` and of `second` at the same time.

        Returns:
            The results of the calls of `first`, of `second`, and of `after`.
        """
        ends = Ends(self._channel)
        _watch_locks(self._channel, self._second_stopped)
        _do(ends, before)
        results: list[Any] = []
        thread = threading.Thread(target=self._follow, args=(ends, second, results), daemon=True)

        def interrupt() -> None:
            with suppress(RuntimeError):
                thread.start()
                self._second_stopped.wait(_MOST_WAIT_SECONDS)

        self._interrupt = interrupt
        try:
            first_results = self._do_traced(ends, first)
        finally:
            if thread.ident is not None:
                thread.join()
        if thread.ident is None:
            self._follow(ends, second, results)
        if self._error is not None:
            raise self._error
        return [first_results, results, _do(ends, after)]

    def _do_traced(self, ends: Ends, calls: Calls) -> list[Any]:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return _do(ends, calls)
        finally:
            sys.settrace(before)

    def _follow(self, ends: Ends, calls: Calls, results: list[Any]) -> None:
        try:
            results += _do(ends, calls)
        except Exception as error:
            self._error = error
        finally:
            self._second_stopped.set()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Trace the lines of the channel's own module."""
        is_own = frame.f_globals.get("__name__") == self._module
        return self._at_line if is_own else None

    def _at_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "line":
            return self._at_line
        self._lines += 1
        if self._interrupt is None or self._lines <= (self._point or 0):
            return self._at_line
        # The other lines need not be traced.
        sys.settrace(None)
        self._interrupt()
        return None


class Races:
    """The same calls in several races, each on a channel of its own.

    Args:
        races: the races; only a race that is run first needs time.
    """

    def __init__(self, *races: Race) -> None:
        self._races = races

    def run(self, before: Calls, first: Calls, second: Calls, after: Calls) -> list[Any]:
        """Run the races; return the results of each, or the error that a call raised, as text."""
        return [self._results(race, before, first, second, after) for race in self._races]

    def _results(self, race: Race, *calls: Calls) -> Any:
        try:
            return race.run(*calls)
        except Exception as error:
            return repr(error)


def _do(ends: Ends, calls: Calls) -> list[Any]:
    return [_call(ends, name, args) for name, *args in calls]


def _call(ends: Ends, name: str, args: Sequence[Any]) -> Any:
    """Call a method, or read an attribute."""
    value = getattr(ends, name)
    return value(*args) if callable(value) else value
