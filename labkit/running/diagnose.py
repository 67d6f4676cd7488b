"""Which common mistake the code under test has made.

A lab's `mistakes.py` holds a probe for each: a function that drives the code with a tiny input and
returns whether the answer is the answer of this mistake and of no other. Wrong names are mistakes
of every lab: they have no probe, because the exception that any probe meets shows them.
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from labkit.course.lab import COURSE
from labkit.running.drive import Driver
from labkit.running.trace import Failure, Raised, Trace, Unreadable

FILE = f"{COURSE}/mistakes.py"
# The processor time of all probes together.
MOST_SECONDS = 2.0
Probe = Callable[[Driver], bool]
# How similar a name is to the missing one, if it is taken for it.
_SIMILAR = 0.4
_MISSING = re.compile(r"\S+ has no '(\w+)'")
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")


@dataclass(frozen=True)
class Mistake:
    """A common mistake.

    Attributes:
        name: the name of its probe, with hyphens; a known bug of the lab has the same name.
        task: the task in which students make it.
        symptom: the behaviour of the code; reports print it after "looks like:".
        hint: the thing to look at.
        probe: returns whether the code makes this mistake.
        overdue: for a mistake that costs time, the tests that show it: at least one of them ran
            into its time limit, and no other test.
    """

    name: str
    task: int
    symptom: str
    hint: str
    probe: Probe
    overdue: frozenset[str] = frozenset()


OTHER_NAME = Mistake(
    "other-name",
    1,
    "A class or a function has another name than in the starter.",
    "Callers use the names of the starter: keep its `class` and `def` lines unchanged.",
    lambda _: False,
)
SELF_LEFT_OUT = Mistake(
    "self-left-out",
    1,
    "An attribute or a method is used without `self.`.",
    "A method sees the attributes and the other methods of its object only through `self`.",
    lambda _: False,
)
# The mistakes of every lab.
SHARED = (OTHER_NAME, SELF_LEFT_OUT)


def mistake(task: int, *, overdue: Collection[str] = ()) -> Callable[[Probe], Probe]:
    """Mark a function of `mistakes.py` as the probe of a mistake that is made in `task`.

    Its docstring is the symptom and, after an empty line, the hint. A probe measures no time: for
    code that is slow, `overdue` names the tests whose time limit shows it.
    """

    def marked(probe: Probe) -> Probe:
        probe.task = task  # type: ignore[attr-defined]
        probe.overdue = frozenset(overdue)  # type: ignore[attr-defined]
        return probe

    return marked


def read_mistakes(folder: Path) -> tuple[Mistake, ...]:
    """Return the mistakes of the lab in `folder`, those of its first task first, and those of every
    lab.

    Without the file there are none.
    """
    path = folder / FILE
    return _read(path, path.read_bytes()) if path.exists() else ()


@functools.lru_cache(maxsize=64)
def _read(path: Path, source: bytes) -> tuple[Mistake, ...]:
    names: dict[str, Any] = {"__name__": f"{path.parents[1].name}.mistakes", "__file__": str(path)}
    exec(compile(source, path, "exec"), names)
    return (*sorted(_mistakes(names.values()), key=lambda mistake: mistake.task), *SHARED)


def _mistakes(values: Collection[object]) -> Iterator[Mistake]:
    for probe in values:
        if inspect.isfunction(probe) and hasattr(probe, "task"):
            symptom, _, hint = (inspect.getdoc(probe) or "").partition("\n\n")
            symptom, hint = " ".join(symptom.split()), " ".join(hint.split())
            name, overdue = probe.__name__.replace("_", "-"), vars(probe)["overdue"]
            yield Mistake(name, probe.task, symptom, hint, probe, overdue)


def diagnose(
    mistakes: Collection[Mistake],
    lab: Driver,
    failing_tasks: Collection[int],
    overdue: Collection[str] = (),
) -> Mistake | None:
    """Return the first mistake whose probe says that the code makes it, or None.

    Reports show the failures of the first task that has some, and the diagnosis explains those.

    Args:
        mistakes: of the lab, in the order in which they are tried.
        lab: drives the code under test.
        failing_tasks: the tasks with a test that ran and failed. Only mistakes of the first of them
            are considered, and those of earlier tasks that cost time.
        overdue: the tests that ran into their time limit.
    """
    # Demonstrations are of task 0.
    first = min(filter(None, failing_tasks), default=0)
    for candidate in mistakes:
        if candidate.overdue:
            shown = bool(overdue) and candidate.task <= first
            likely = shown and candidate.overdue.issuperset(overdue)
        else:
            likely = candidate.task == first
        if not likely:
            continue
        with suppress(Exception):
            if (answer := _answer(candidate, lab)) is not None:
                return answer
    return None


def _answer(candidate: Mistake, lab: Driver) -> Mistake | None:
    """Return the mistake if its probe says that the code makes it, or a mistake in a name that the
    probe meets. An exception means that the code makes another mistake.
    """
    try:
        return candidate if candidate.probe(lab) is True else None
    except Failure as failure:
        return None if failure.raised is None else _misnamed(failure.raised, failure.trace, lab)


def _misnamed(raised: Raised, trace: Trace | None, lab: Driver) -> Mistake | None:
    """Return the mistake in a name because of which the code raised, or None."""
    missing, undefined = _MISSING.fullmatch(raised.message), _UNDEFINED.match(raised.message)
    if raised.kind == "AttributeError" and missing is not None and not raised.line:
        return _other_name(missing[1], lab)
    if raised.kind == "NameError" and undefined is not None and trace is not None:
        name = undefined[1]
        value = lab.script(trace.new, [name], watch="").steps[0].result
        if not isinstance(value, Unreadable) or value.kind == "method":
            return replace(SELF_LEFT_OUT, symptom=f"`{name}` is used without `self.`.")
    return None


def _other_name(missing: str, lab: Driver) -> Mistake:
    """Return the mistake of code without a class or a function of this name."""
    kind, words = ("type", "class") if missing[0].isupper() else ("function", "function")
    names = [name for name in lab.call("__dir__") if not name.startswith("_")]
    values = [step.result for step in lab.script([], names, watch="").steps]
    # The message names the type if a value does not cross.
    same = [
        name
        for name, value in zip(names, values, strict=True)
        if isinstance(value, Unreadable) and f" a {kind};" in value.message
    ]
    close = get_close_matches(missing, same, 1, _SIMILAR)
    there = f"There is a {words} `{close[0]}`, but no" if close else f"There is no {words}"
    return replace(OTHER_NAME, symptom=f"{there} `{missing}`, which callers use.")
