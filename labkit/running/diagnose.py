"""Which common mistake the code under test has made.

A lab's `mistakes.py` holds a probe for each: a function that drives the code with a tiny input and
returns whether the answer is the answer of this mistake and of no other.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.course.lab import COURSE
from labkit.running.drive import Driver

FILE = f"{COURSE}/mistakes.py"
# The processor time of all probes together.
MOST_SECONDS = 2.0
Probe = Callable[[Driver], bool]


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
    """Return the mistakes of the lab in `folder`, those of its first task first.

    Without the file there are none.
    """
    path = folder / FILE
    return _read(path, path.read_bytes()) if path.exists() else ()


@functools.lru_cache(maxsize=64)
def _read(path: Path, source: bytes) -> tuple[Mistake, ...]:
    names: dict[str, Any] = {"__name__": f"{path.parents[1].name}.mistakes", "__file__": str(path)}
    exec(compile(source, path, "exec"), names)
    return tuple(sorted(_mistakes(names.values()), key=lambda mistake: mistake.task))


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

    Args:
        mistakes: of the lab, in the order in which they are tried.
        lab: drives the code under test.
        failing_tasks: the tasks with a test that ran and failed. Mistakes of other tasks are not
            considered, except those that cost time.
        overdue: the tests that ran into their time limit.
    """
    for candidate in mistakes:
        if candidate.overdue:
            likely = bool(overdue) and candidate.overdue.issuperset(overdue)
        else:
            likely = candidate.task in failing_tasks
        if likely and _answers(candidate.probe, lab):
            return candidate
    return None


def _answers(probe: Probe, lab: Driver) -> bool:
    try:
        return probe(lab) is True
    except Exception:
        # The code raised, or returned a value that the probe does not expect: another mistake.
        return False
