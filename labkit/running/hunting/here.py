"""A hunt in this process: a student's tests, and the implementations that they are run on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from labkit.course.hunt import Code, Target
from labkit.errors import LoadFailure
from labkit.running import platform
from labkit.running.drive import as_plain, perform
from labkit.running.hunting.memory import forgetting
from labkit.running.hunting.private_names import check_public
from labkit.running.hunting.rules import MAKE, plan
from labkit.running.hunting.verdict import (
    FUSE,
    MOST_SHOWN,
    Verdict,
    VerdictKind,
    fuse_blown,
    verdict_of,
)
from labkit.running.hunting.work import WORK, TooMuchWork
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.source import load_source

_LEAST_SECONDS = 0.01


class Handle:
    """An object of an implementation: its public methods and attributes, and nothing else."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __getattribute__(self, name: str) -> Any:
        made = object.__getattribute__(self, "_made")
        check_public(type(made).__name__, name)
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        if not callable(getattr(type(made), name, None)):
            try:
                with WORK.aside():
                    return _plain(getattr(made, name))
            except TooMuchWork as error:
                raise TimeoutError(f"{error}") from None

        def method(*args: Any, **kwargs: Any) -> Any:
            function = getattr(made, name)
            return _called(function, *map(as_plain, args), **as_plain(kwargs))

        return method

    def __repr__(self) -> str:
        return f"<{type(object.__getattribute__(self, '_made')).__name__}>"


class Make:
    """The argument of a student's test: it makes objects of one implementation, and calls it.

    Only plain data goes in and out, as if the implementation were in another process.
    """

    def __init__(self, target: Target, module: Any) -> None:
        self._target = target
        self._module = module

    def __getattribute__(self, name: str) -> Any:
        """Refuse private names."""
        check_public("make", name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return "make"

    def __call__(self, name: str, /, *args: Any, **kwargs: Any) -> Handle:
        """Make an object of a class."""
        cls = _find(self, name)
        return Handle(_counted(cls, *map(as_plain, args), **as_plain(kwargs)))

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function."""
        return _called(_find(self, name), *map(as_plain, args), **as_plain(kwargs))

    def each(self, method: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of a method for each of the arguments.

        If the object is in another process, this is quicker than calls.
        """
        return map(method, [*arguments])


def _find(make: Make, name: str) -> Any:
    """Return a class or function of the implementation that a `Make` makes objects of."""
    target, module = (object.__getattribute__(make, it) for it in ("_target", "_module"))
    if name not in target.names:
        raise ValueError(f"there is no part {name!r:.60}")
    return getattr(module, name)


class Here:
    """Runs tests on implementations in this process, for browsers and debuggers.

    Args:
        load: imports the student's tests, for each run anew: no run may use the memory of an
            earlier one.
        fuse: the seconds of processor time that the tests of a run may use.
        after_run: called after each test, with the kind of exception that it ended with, or "".
    """

    def __init__(
        self,
        load: Callable[[], object],
        fuse: float = FUSE,
        after_run: Callable[[str], object] = lambda raised: None,
    ) -> None:
        self._load = load
        self._fuse = fuse
        self._after_run = after_run
        self._counts = (0, 0)

    def __call__(self, code: Code, tests: Sequence[str]) -> dict[str, Verdict]:
        """Run tests on an implementation; see `labkit.running.hunting.rules.Run`."""
        with forgetting():
            return self._verdicts(code, tests)

    def _verdicts(self, code: Code, tests: Sequence[str]) -> dict[str, Verdict]:
        verdicts: dict[str, Verdict] = {}
        own, program, left = self._load(), code.metered_program(), self._fuse
        for test in tests:
            begin = platform.processor_time()
            name = f"pool.{code.name}"
            module = load_source(program, code.name, code.name, name, code.imports)
            there = {MAKE: partial(Make, code.target, module), test: vars(own)[test]}
            verdict = self._run(test, there, max(left, _LEAST_SECONDS))
            seconds = platform.processor_time() - begin
            left -= seconds
            verdicts[test] = replace(
                verdict, seconds=seconds, steps=self._counts[0], allowed=self._counts[1]
            )
            if verdict.kind is VerdictKind.ENDLESS:
                break
        return verdicts

    def _run(self, test: str, there: Mapping[str, Any], seconds: float) -> Verdict:
        try:
            with time_limit(seconds), WORK.counted():
                trace = perform(there.__getitem__, plan(test), [], "")
                counts = WORK.totals
        except OverdueError:
            return fuse_blown(self._fuse * platform.SLOWER)
        except (KeyboardInterrupt, LoadFailure):
            raise
        except BaseException as error:
            what = f"{type(error).__name__}: {error!s:.{MOST_SHOWN}}"
            return Verdict(VerdictKind.FAILED, what)
        self._counts = counts[0], counts[2]
        self._after_run(trace.raised.kind if trace.raised else "")
        if WORK.is_over:
            return Verdict(VerdictKind.FAILED, WORK.reason)
        return verdict_of(trace.raised)


def _counted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call an implementation and return the result; count its input and its steps.

    Raises:
        TimeoutError: it takes too many steps.
    """
    try:
        WORK.take_in(args, kwargs)
        return function(*args, **kwargs)
    except TooMuchWork as error:
        raise TimeoutError(f"{error}") from None


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Do the same, and return the result as plain data, which is counted as well."""
    return WORK.give_out(_plain(_counted(function, *args, **kwargs)))


def _plain(value: Any) -> Any:
    try:
        return as_plain(value)
    except TypeError as error:
        # In another process, the value would have to be sent, with this error.
        raise ValueError(f"{error}") from None
