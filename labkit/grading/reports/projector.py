"""One page about a class for the classroom: charts, the hardest tests, the common mistakes.

It has no names, no sources, no hidden tests and no seed, so students may see it. The page is one
file that makes no request; equal grades make equal bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.reports.charts import histogram, share_bar
from labkit.grading.reports.movement import Movement, movement_of
from labkit.grading.reports.page import page
from labkit.grading.reports.statistics import (
    Item,
    Statistics,
    by_lab,
    common_mistakes,
    failed_most,
    lab_statistics,
)
from labkit.running.diagnose import Mistake

_MOST_TESTS, _MOST_MISTAKES = 5, 4
_VISIBLE = "visible"


@dataclass(frozen=True)
class _Section:
    """The template's values for one lab."""

    id: str
    name: str
    title: str
    numbers: Statistics
    histogram: Markup
    tasks: list[tuple[int, str, Markup]]
    failed_most: list[tuple[Item, Markup]]
    mistakes: list[tuple[Mistake, int]]
    movement: Movement | None
    moved: Markup


def write_projector(
    grades: Sequence[Grade],
    path: Path,
    labs: Sequence[Lab],
    before: Mapping[tuple[str, str], int],
) -> None:
    """Write the page.

    Args:
        grades: the grades of one lab or several.
        path: the file to write.
        labs: at least the labs of the grades; they have the titles of tasks and the mistakes.
        before: by student and lab, the score before its last change.
    """
    by_name = {lab.name: lab for lab in labs}
    sections = [
        _section(own, by_name[own[0].lab], number, before)
        for number, own in enumerate(by_lab(grades))
    ]
    path.write_bytes(page("projector", sections=sections))


def _section(
    grades: Sequence[Grade], lab: Lab, number: int, before: Mapping[tuple[str, str], int]
) -> _Section:
    numbers = lab_statistics(grades)
    titles = {task.number: task.title for task in lab.tasks}
    visible = [item for item in failed_most(numbers, len(numbers.items))
               if item.visibility == _VISIBLE]  # fmt: skip
    mistakes = common_mistakes(numbers, lab)[:_MOST_MISTAKES]
    movement = movement_of(grades, before)
    return _Section(
        id=f"lab{number}",
        name=lab.label,
        title=lab.title,
        numbers=numbers,
        histogram=histogram(numbers.histogram, width=520, height=170),
        tasks=[
            (task, titles.get(task, ""), histogram(bars, width=240, height=80))
            for task, bars in numbers.task_histograms.items()
        ],
        failed_most=[(item, share_bar(item.difficulty)) for item in visible[:_MOST_TESTS]],
        mistakes=[(mistake, numbers.mistakes[mistake.name]) for mistake in mistakes],
        movement=movement,
        moved=Markup()
        if movement is None
        else histogram(movement.now, movement.before, width=520, height=170),
    )
