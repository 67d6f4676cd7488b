"""The work of an implementation as a count of steps, which is the same on every machine.

A step is a call of a function, a round of a loop, a character, byte or item that a built-in
operation reads, or 64 that it copies. `labkit.course.metering` rewrites a source so
that it counts its steps here.

    text = self._all + piece    ->    text = WORK.result(self._all + piece)
    self._all.find(stop)        ->    WORK.method(self._all, "find", stop)

The number of steps that an implementation may take grows with the size of its input and output. An
implementation that rescans the whole text for each piece takes twice as many steps a piece if the
text is twice as long, so it exceeds the limit.

But: an operation inside another library and the hash of a long key are not counted.
"""

import dataclasses
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import CodeType
from typing import Any, TypeVar

_T = TypeVar("_T")

# The steps that an implementation may take in one test: a base, and more for each character, byte,
# id or item of its input and output.
STEPS_AT_LEAST = 200_000
STEPS_PER_ITEM = 100
# The calls of one test, so that a test cannot wait forever for an answer.
MOST_CALLS = 50_000

_NO_LIMIT = 1 << 62
# Copying one item is about so many times as fast as one step of Python.
_COPIED_IN_A_STEP = 64
_TEXTS = frozenset([str, bytes, bytearray])
_CONTAINERS = _TEXTS | {list, tuple, set, frozenset, dict, deque}
_GROW_IN_PLACE = frozenset([list, bytearray, set, deque])


class TooMuchWork(BaseException):
    """An implementation took too many steps. No `except Exception` swallows it."""


class Work:
    """The steps of the implementation under test, and their limit.

    Attributes:
        steps: the steps taken in this test.
        allowed: the steps allowed so far.
        calls: the number of calls.
        is_over: whether the limit was exceeded in this test.
    """

    def __init__(self) -> None:
        self.begin()
        self._end()

    def begin(self, most_calls: int = MOST_CALLS) -> None:
        """Begin to count for another test, which may make `most_calls` calls."""
        self.steps = self.calls = 0
        self.allowed = STEPS_AT_LEAST
        self.is_over = False
        self._most_calls = most_calls

    def _end(self) -> None:
        """Lift the limit until another test begins."""
        self.allowed = self._most_calls = _NO_LIMIT

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the steps and calls of the body as one test."""
        self.begin(MOST_CALLS)
        try:
            yield
        finally:
            self._end()

    def take_in(self, arguments: Iterable[Any], options: Mapping[str, Any]) -> None:
        """Count a call and its arguments.

        Raises:
            TooMuchWork: the calls of this test are used up, or its steps were used up before.
        """
        self.calls += 1
        self.allowed += STEPS_PER_ITEM * (_sum(arguments) + _sum(options.values()))
        if self.is_over or self.calls > self._most_calls:
            self._stop()

    def give_out(self, value: _T) -> _T:
        """Count the result of a call, and return it."""
        self.allowed += STEPS_PER_ITEM * size_of(value)
        return value

    @property
    def reason(self) -> str:
        """Why an implementation is stopped."""
        if self.calls > self._most_calls:
            return f"the test calls the implementation more than {self._most_calls:,} times"
        return (
            f"the implementation takes more than {STEPS_PER_ITEM} steps for each character or item "
            "of its input and output"
        )

    @property
    def totals(self) -> tuple[int, int, int]:
        """The counts of this test: steps, calls, and allowed steps."""
        return self.steps, self.calls, self.allowed

    def since(self, totals: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the increase of the counts since earlier totals."""
        steps, calls, allowed = totals
        return self.steps - steps, self.calls - calls, self.allowed - allowed

    def take_back(self, steps: int, calls: int, allowed: int) -> None:
        """Subtract the counts of calls that have not happened after all."""
        self.steps -= steps
        self.calls -= calls
        self.allowed -= allowed
        self.is_over = False

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Count the steps of the body separately, and discard them unless they exceed the limit.

        Reading an attribute is counted like this, because attributes may be read ahead.
        """
        before = self.totals
        yield
        self.steps, self.calls, self.allowed = before

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Count nothing in the body, such as repeated calls."""
        before, self.allowed = self.totals, _NO_LIMIT
        try:
            yield
        finally:
            self.steps, self.calls, self.allowed = before

    def step(self, count: int = 1) -> None:
        """Count steps.

        Raises:
            TooMuchWork: the steps exceed the limit.
        """
        self.steps += count
        if self.steps > self.allowed:
            self._stop()

    def _stop(self) -> None:
        self.is_over = True
        raise TooMuchWork(self.reason)

    def rounds(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield items, and count each."""
        for item in items:
            self.step()
            yield item

    def result(self, value: Any) -> Any:
        """Return a new value, and count the items that were copied into it."""
        if type(value) in _CONTAINERS:
            size = len(value)
            if size >= _COPIED_IN_A_STEP:
                self.step(size // _COPIED_IN_A_STEP)
        return value

    def contains(self, items: Any, item: Any) -> bool:
        """Return whether an item is among others, and count the items that were read."""
        is_in: bool = item in items
        kind = type(items)
        if kind in _TEXTS:
            self.step(items.find(item) + 1 if is_in else len(items))
        elif kind is list or kind is tuple or kind is deque:
            self.step(items.index(item) + 1 if is_in else len(items))
        return is_in

    def equal(self, one: Any, other: Any) -> Any:
        """Return `one == other`, and count the compared items."""
        if type(one) in _CONTAINERS and type(other) in _CONTAINERS:
            self.step(len(one) if len(one) == len(other) else 1)
        return one == other

    def added(self, before: Any, value: Any, is_variable: bool) -> Any:
        """Return the value of `before += value`, and count the items that it copies.

        Python extends lists, bytearrays and the text in a local variable in place.
        """
        kind = type(before)
        if not (kind in _GROW_IN_PLACE or (is_variable and kind is str)):
            self.result(before)
        return self.result(value)

    def cut(self, items: Any, part: slice) -> slice:
        """Return a slice that is assigned or deleted, and count the items that move."""
        if isinstance(items, list):
            moved = len(items) - min(part.indices(len(items))[:2])
            self.step(moved // _COPIED_IN_A_STEP)
        return part

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a built-in function; count the items that it reads and copies."""
        for value in args:
            if type(value) in _CONTAINERS:
                self.step(len(value))
        return self.result(function(*args, **kwargs))

    def method(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return the result of a method, and count the items that it reads and copies."""
        result = getattr(owner, name)(*args, **kwargs)
        kind = type(owner)
        if kind in _TEXTS:
            self.step(_of_text(owner, name, args, result))
        elif kind is list or kind is deque:
            self.step(_of_list(owner, name, args))
        elif kind is re.Pattern:
            self.step(_of_pattern(name, args, result))
        elif not isinstance(owner, type):
            self.step(sum(len(value) for value in args if type(value) in _CONTAINERS))
        return self.result(result)


def _of_text(owner: Any, name: str, args: tuple[Any, ...], result: Any) -> int:
    if name in ("startswith", "endswith"):
        words = args[0] if isinstance(args[0], tuple) else (args[0],)
        return sum(map(len, words))
    if name in ("find", "index") and isinstance(result, int):
        start = args[1] if len(args) > 1 else 0
        end = result if result >= 0 else (args[2] if len(args) > 2 else len(owner))
        return max(0, min(end, len(owner)) - start) + 1
    if name in ("strip", "lstrip", "rstrip", "removeprefix", "removesuffix"):
        # The rest is copied, but not read.
        return len(owner) - len(result) + 1
    if name == "partition":
        return len(owner) - len(result[2]) + len(owner) // _COPIED_IN_A_STEP
    # A join reads its argument.
    return len(args[0]) if name == "join" and isinstance(args[0], list | tuple) else len(owner)


def _of_list(owner: Any, name: str, args: tuple[Any, ...]) -> int:
    if name == "extend":
        return len(args[0]) if type(args[0]) in _CONTAINERS else 1
    if name == "pop":
        moved = len(owner) - args[0] if args and args[0] >= 0 and isinstance(owner, list) else 0
        return 1 + moved // _COPIED_IN_A_STEP
    return len(owner)


def _of_pattern(name: str, args: tuple[Any, ...], result: Any) -> int:
    text = next((value for value in args if type(value) in _TEXTS), "")
    start = args[1] if len(args) > 1 and isinstance(args[1], int) else 0
    if isinstance(result, re.Match):
        return result.end() - min(start, result.end()) + 1
    # A match that fails at its first place has read almost nothing.
    return 1 if name in ("match", "fullmatch") else max(0, len(text) - start) + 1


def size_of(value: Any) -> int:
    """Return how many characters, bytes, ids or items a value has; at least 1."""
    kind = type(value)
    if kind in _TEXTS:
        return len(value) or 1
    if kind is int or value is None:
        return 1
    if kind is dict:
        return _sum(value) + _sum(value.values()) or 1
    if kind in _CONTAINERS:
        return _sum(value) or 1
    if is_dataclass(value) and not isinstance(value, type):
        return _sum(getattr(value, field.name) for field in fields(value)) or 1
    return 1


def _sum(values: Iterable[Any]) -> int:
    return sum(map(size_of, values))


@lru_cache(maxsize=1024)
def compiled(source: str, filename: str) -> CodeType:
    """Return the code of a module of an implementation; many implementations share most of them."""
    return compile(source, filename, "exec")


@contextmanager
def dataclasses_compiled_once() -> Iterator[None]:
    """Compile the methods that dataclasses get in the body once in this process.

    An implementation is imported for each test, and more than half of that time would be the
    compiling of these methods.
    """

    def run(source: str, names: dict[str, Any], space: dict[str, Any]) -> None:
        exec(compiled(source, "<dataclass>"), names, space)

    # `dataclasses` calls the name `exec`, which is the built-in function if the module has none.
    vars(dataclasses)["exec"] = run
    try:
        yield
    finally:
        vars(dataclasses).pop("exec", None)


WORK = Work()
