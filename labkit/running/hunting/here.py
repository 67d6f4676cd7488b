"""A hunt in this process: a student's tests, and the implementations that they are run on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from labkit.course.hunt import Code, Target
from labkit.errors import LoadFailure
from labkit.running.drive import as_plain, perform
from labkit.running.hunting.rules import (
    MAKE,
    MOST_SHOWN,
    ROUND,
    ROUNDS,
    Verdict,
    in_all,
    late,
    once_more,
    plan,
    verdict_of,
)
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.platform import processor_time
from labkit.running.source import load_source
from labkit.running.trace import Trace

_LEAST_SECONDS = 0.01


class Clock:
    """How long an implementation has computed in one test."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    @property
    def is_over(self) -> bool:
        """Whether that is longer than it may."""
        return self._left < 0

    def timed(self, function: Callable[[], Any]) -> Any:
        """Call a function of the implementation."""
        if self.is_over:
            raise TimeoutError("it has computed for too long")
        begin = processor_time()
        try:
            return function()
        finally:
            self._left -= processor_time() - begin


class Handle:
    """An object of an implementation: its public methods and attributes, and nothing else."""

    def __init__(self, made: Any, clock: Clock) -> None:
        self.__made = made
        self.__clock = clock

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{name!r} is not public", name=name, obj=self)
        value = self.__clock.timed(lambda: getattr(self.__made, name))
        if not callable(value):
            return _out(value)

        def method(*args: Any, **kwargs: Any) -> Any:
            return _out(_called(self.__clock, value, args, kwargs))

        return method


class Make:
    """What a student's test is given: it makes objects of one implementation, and calls it.

    As where the implementation is in another process, only plain data goes in and out.
    """

    def __init__(self, target: Target, module: Any, clock: Clock) -> None:
        self._target = target
        self._module = module
        self._clock = clock

    def __call__(self, name: str, /, *args: Any, **kwargs: Any) -> Handle:
        """Make an object of a class."""
        made = _called(self._clock, self._find(name), args, kwargs)
        return Handle(made, self._clock)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function."""
        return _out(_called(self._clock, self._find(name), args, kwargs))

    def each(self, method: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield what a method returns for each of the arguments.

        Where the object is far away, that is quicker than to call it.
        """
        return map(method, [*arguments])

    def _find(self, name: str) -> Any:
        if name not in self._target.names:
            raise ValueError(f"there is no part {name!r:.60}")
        return getattr(self._module, name)


class Here:
    """Runs tests on implementations in this process.

    Args:
        load: imports the student's tests, for each implementation anew: what they remember of one
            shall not help with the next.
        seconds: the limit of one test on one implementation.
        after_run: told after each, with the trace.
    """

    def __init__(
        self,
        load: Callable[[], object],
        seconds: float,
        after_run: Callable[[Trace], object] = lambda trace: None,
    ) -> None:
        self._load = load
        self._seconds = seconds
        self._after_run = after_run

    def __call__(self, code: Code, tests: Sequence[str]) -> list[dict[str, Verdict]]:
        """Run tests on an implementation; see `labkit.running.hunting.rules.Run`."""
        rounds: list[dict[str, Verdict]] = []
        own = self._load()
        for _ in range(ROUNDS):
            tests = once_more(code, tests, rounds)
            rounds.append({})
            name = f"pool.{code.name}"
            module = load_source(code.source, code.name, code.name, name, code.given)
            end = processor_time() + ROUND * self._seconds
            for test in tests:
                clock = Clock(self._seconds)
                there = {MAKE: partial(Make, code.target, module, clock), test: vars(own)[test]}
                left = max(end - processor_time(), _LEAST_SECONDS)
                verdict = rounds[-1][test] = self._run(test, there, clock, left)
                if verdict.kind == "late":
                    return rounds
        return rounds

    def _run(self, test: str, there: Mapping[str, Any], clock: Clock, seconds: float) -> Verdict:
        try:
            with time_limit(seconds):
                trace = perform(there.__getitem__, plan(test), [], "")
        except OverdueError:
            return Verdict("late", in_all(self._seconds))
        except (KeyboardInterrupt, LoadFailure):
            raise
        except BaseException as error:
            return Verdict("failed", f"{type(error).__name__}: {error!s:.{MOST_SHOWN}}")
        self._after_run(trace)
        return Verdict("late", late(self._seconds)) if clock.is_over else verdict_of(trace.raised)


def _called(clock: Clock, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    args, kwargs = tuple(map(as_plain, args)), as_plain(kwargs)
    return clock.timed(lambda: function(*args, **kwargs))


def _out(value: Any) -> Any:
    try:
        return as_plain(value)
    except TypeError as error:
        # So it is told where it would have to be sent.
        raise ValueError(f"{error}") from None
