"""Several implementations of a layer on one workload: do they agree, how long, how much is held?

A lab's `race.py` has the workload and the naive version; it may have others to run beside them.

But: it isolates nothing. Everything runs in this process.
"""

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from labkit.course.lab import COURSE, Lab
from labkit.errors import LabFolderError, LabkitError
from labkit.running.import_file import import_file
from labkit.running.lab_impl import Implementation, load
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.source import last_line_in
from labkit.running.trace import pieces_of

FILE = f"{COURSE}/race.py"
_NAMES = ("UNIT", "CLASS", "ARGUMENTS", "NAIVE", "workload")
_ROUNDS = 15
_FEWEST_ROUNDS = 2
# An implementation that has used so much time in all runs no further rounds.
_ENOUGH_SECONDS = 1.5
_LIMIT_SECONDS = 30.0

Make = Callable[[], Any]


class StumbleError(LabkitError):
    """An implementation does not get through the workload; the message is for its author."""


@dataclass(frozen=True)
class Race:
    """The content of a `race.py`.

    Attributes:
        unit: the name of one piece of the workload, "piece" or "token".
        class_name: of the layer.
        arguments: of its constructor.
        pieces: the workload.
        naive_way: the idea of the naive version, in a few words.
        naive: makes the naive version.
        others: makers of further implementations in `race.py`, such as a library's, by name.
    """

    unit: str
    class_name: str
    arguments: tuple[Any, ...]
    pieces: Sequence[Any]
    naive_way: str
    naive: Make
    others: Mapping[str, Make] = field(default_factory=dict)

    @property
    def naive_version(self) -> str:
        """The naive version by name: other labs and `make demo` have other naive ways."""
        return f"naive version ({self.naive_way})"


@dataclass(frozen=True)
class Walk:
    """One pass over the workload.

    Attributes:
        outputs: of every `feed`, and of `flush`.
        held: the length of `held` after a `feed`, on average; None if it could not be read.
        held_unit: "characters" or "bytes".
    """

    outputs: list[Any]
    held: float | None
    held_unit: str


def read_race(lab: Lab) -> Race | None:
    """Return the race of a lab, None if it has none.

    Raises:
        LabFolderError: its `race.py` lacks a name.
    """
    path = lab.path / FILE
    if not path.exists():
        return None
    module = import_file(path, f"{lab.name}.race")
    missing = [name for name in _NAMES if not hasattr(module, name)]
    if not missing and not hasattr(module, module.CLASS):
        missing = [module.CLASS]
    if missing:
        raise LabFolderError(f"{path} has no {missing[0]}")
    arguments, naive = module.ARGUMENTS, getattr(module, module.CLASS)
    return Race(
        module.UNIT,
        module.CLASS,
        arguments,
        module.workload(),
        module.NAIVE,
        lambda: naive(*arguments),
        module.others() if hasattr(module, "others") else {},
    )


def maker(race: Race, implementation: Implementation) -> Make:
    """Return a function that makes the raced object of an implementation.

    Raises:
        LoadFailure: it could not be imported.
        StumbleError: it has no such class.
    """
    module: ModuleType = load(implementation, f"race.{implementation.kind}")
    if not hasattr(module, race.class_name):
        raise StumbleError(f"{implementation.path.name} has no class {race.class_name}")
    return lambda: getattr(module, race.class_name)(*race.arguments)


def walk(race: Race, make: Make, implementation: Implementation) -> Walk:
    """Feed the workload once, reading `held` after each piece.

    Raises:
        StumbleError: the implementation raises, is not written yet, or takes too long.
    """
    name, outputs, held = implementation.path.name, [], []
    try:
        with _silence(), time_limit(_LIMIT_SECONDS):
            layer = make()
            for piece in race.pieces:
                outputs.append(layer.feed(piece))
                held.append(_held(layer))
            outputs.append(layer.flush())
    except (Exception, OverdueError) as error:
        at = where(race, len(outputs))
        raise StumbleError(f"{name} {_stumbled(error, at, implementation.filename)}") from None
    sizes = [len(value) for value in held if value is not None]
    if not sizes or len(sizes) < len(held):
        return Walk(outputs, None, "")
    unit = "characters" if isinstance(held[0], str) else "bytes"
    return Walk(outputs, sum(sizes) / len(sizes), unit)


def where(race: Race, number: int) -> str:
    """Return the call of an output in words: `piece 17, 'ab'`, or `flush`."""
    if number >= len(race.pieces):
        return "flush"
    return f"{race.unit} {number + 1}, {race.pieces[number]!r}"


def _stumbled(error: BaseException, at: str, filename: str) -> str:
    if isinstance(error, OverdueError):
        return f"was still running after {_LIMIT_SECONDS:g} s, at {at}"
    if isinstance(error, NotImplementedError):
        return f"is not finished: {error or 'a function'} is not written yet"
    line = last_line_in(error, filename)
    in_line = f" (line {line[0]}: {line[1].strip()})" if line else ""
    return f"raised {type(error).__name__} at {at}: {error}{in_line}"


def first_difference(outputs: Sequence[Any], expected: Sequence[Any]) -> int | None:
    """Return the number of the first output, from 0, with which the joined outputs differ.

    Only the joined outputs count: the same text may be returned earlier or later. None if both are
    equal.
    """
    whole = [part for output in expected for part in _parts(output)]
    done = 0
    for number, output in enumerate(outputs):
        parts = _parts(output)
        if whole[done : done + len(parts)] != parts:
            return number
        done += len(parts)
    return None if done == len(whole) else len(outputs) - 1


def best_times(race: Race, makers: Mapping[str, Make]) -> dict[str, float]:
    """Return the nanoseconds of processor time per unit of each, the least of several rounds.

    The rounds are interleaved, so other work of the machine slows all of them alike.
    """
    times: dict[str, list[float]] = {name: [] for name in makers}
    with _silence(), _no_collection():
        for number in range(_ROUNDS):
            for name, make in makers.items():
                if number < _FEWEST_ROUNDS or sum(times[name]) < _ENOUGH_SECONDS:
                    times[name].append(_time(race.pieces, make))
    best = {name: min(rounds) for name, rounds in times.items()}
    return {name: seconds * 1e9 / len(race.pieces) for name, seconds in best.items()}


def _time(pieces: Sequence[Any], make: Make) -> float:
    layer = make()
    feed = layer.feed
    began = time.thread_time()
    for piece in pieces:
        feed(piece)
    layer.flush()
    return time.thread_time() - began


def _held(layer: Any) -> str | bytes | bytearray | None:
    try:
        held = layer.held
    except Exception:
        return None
    return held if isinstance(held, str | bytes | bytearray) else None


def _parts(output: Any) -> list[Any]:
    """Return an output as a list in which the cuts between texts do not show."""
    if isinstance(output, str):
        return list(output)
    if isinstance(output, list | tuple):
        return [part for item in output for part in _parts(item)]
    return [*pieces_of(output)]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard the output of the code."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
