"""One page about a cohort, for its instructors: scores, tests, mistakes, likenesses, every failure.

The page is one file that makes no request. Its charts are SVG, and its Content-Security-Policy
allows its own script and style only, so nothing in a submission can run or load anything. Equal
grades make equal bytes. Unfolding, sorting and searching need JavaScript.

The page is not for students: it names hidden tests and shows the work of several students side by
side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any, TypeAlias

from markupsafe import Markup

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.reading.source_text import text_of, unusual
from labkit.grading.reports.charts import KINDS, SHADES, HeatMap, heat_map, histogram, scatter
from labkit.grading.reports.movement import Movement, movement_of
from labkit.grading.reports.page import page
from labkit.grading.reports.pairs import MOST_PAIRS, Row, Similar
from labkit.grading.reports.similarity import FEWEST, KNOWN_THRESHOLD, THRESHOLD, names_in
from labkit.grading.reports.statistics import (
    Item,
    Statistics,
    failed_most,
    lab_statistics,
    mistakes_of,
    score_in,
)
from labkit.running.diagnose import Mistake

Marks: TypeAlias = Mapping[tuple[str, str], Mark]
# How many of the tests that the class fails most are listed.
MOST_TESTS = 6
# The most that the page holds, so that a browser opens it at once.
MOST_MESSAGE_BYTES = 3 << 20
_MOST_DETAIL, _MOST_SHORT = 1_500, 160
_MOST_SOURCE = 24_000


@dataclass(frozen=True)
class _Student:
    """A row of the table of submissions.

    Attributes:
        grade: the grade.
        name: the student's name.
        tasks: the points of each task.
        before: the score before its last change, if it changed.
        alike: the number of pairs with this submission, and of others with the same file.
        unusual: unusual things in the source.
        failed: the number of failed tests.
        mark: the mark, if it can differ from the score.
    """

    grade: Grade
    name: str
    tasks: list[int]
    before: int | None
    alike: int
    unusual: list[str]
    failed: int
    mark: Mark | None


@dataclass(frozen=True)
class _Section:
    """The template's values for one lab; `data` holds the texts that its script unfolds."""

    id: str
    name: str
    title: str
    first: Grade
    modes: list[str]
    numbers: Statistics
    histogram: Markup
    task_histograms: dict[int, Markup]
    scatter: Markup
    heat_map: HeatMap
    failed_most: list[Item]
    tasks: dict[int, str]
    mistakes: list[tuple[Mistake, list[str]]]
    movement: Movement | None
    moved: Markup
    students: list[_Student]
    equal: list[str]
    pairs: list[Row]
    most_pairs: bool
    copies: list[Row]
    data: dict[str, Any]


def write_html(
    similar: Sequence[Similar],
    path: Path,
    labs: Sequence[Lab],
    marks: Marks | None = None,
    before: Mapping[tuple[str, str], int] | None = None,
) -> None:
    """Write the page.

    Args:
        similar: the grades of one lab or several, with the similar submissions.
        path: the file to write.
        labs: at least the labs of the grades; they have the texts of mistakes.
        marks: by student and lab, if they can differ from the scores.
        before: by student and lab, the score before its last change.
    """
    by_name = {lab.name: lab for lab in labs}
    sections = [
        _section(own, by_name[own.order[0].lab], number, marks or {}, before or {})
        for number, own in enumerate(similar)
    ]
    values = {
        "marked": marks is not None,
        "plain": plain,
        "kinds": KINDS,
        "shades": SHADES,
        "threshold": THRESHOLD,
        "known_threshold": KNOWN_THRESHOLD,
        "fewest": FEWEST,
    }
    path.write_bytes(page("report", sections=sections, **values))


def _section(
    similar: Similar,
    lab: Lab,
    number: int,
    marks: Marks,
    before: Mapping[tuple[str, str], int],
) -> _Section:
    """Return the template's values for the grades of one lab."""
    order = similar.order
    numbers = lab_statistics(order)
    alike = similar.counts()
    movement = movement_of(order, before)
    return _Section(
        id=f"lab{number}",
        name=order[0].lab,
        title=lab.title,
        first=order[0],
        modes=sorted({grade.mode for grade in order}),
        numbers=numbers,
        histogram=histogram(numbers.histogram),
        task_histograms={
            task: histogram(bars, width=200, height=70)
            for task, bars in numbers.task_histograms.items()
        },
        scatter=scatter(numbers),
        heat_map=heat_map(order),
        failed_most=failed_most(numbers, MOST_TESTS),
        tasks={task.number: task.title for task in lab.tasks},
        mistakes=[
            (mistake, [similar.names[grade.student] for grade in order
                       if grade.looks_like == mistake.name])
            for mistake in mistakes_of(numbers, lab)
        ],
        movement=movement,
        moved=Markup() if movement is None else histogram(movement.now, movement.before),
        students=[
            _Student(
                grade=grade,
                name=similar.names[grade.student],
                tasks=[score_in(grade, task) for task in numbers.tasks],
                before=before.get((grade.student, grade.lab)),
                alike=alike[row],
                unusual=_unusual(similar.sources.get(grade.submission, b"")),
                failed=sum(not test.passed for test in grade.tests),
                mark=marks.get((grade.student, grade.lab)),
            )
            for row, grade in enumerate(order)
        ],
        equal=[similar.scored(name) for name in similar.same],
        pairs=similar.rows(similar.pairs),
        most_pairs=len(similar.pairs) == MOST_PAIRS,
        copies=similar.rows(similar.copies),
        data=_data(similar),
    )  # fmt: skip


def _unusual(source: bytes) -> list[str]:
    return [*unusual(source, names_in(source))]


def _data(similar: Similar) -> dict[str, Any]:
    """Return the texts that the script unfolds on demand; each message is included once."""
    order, names = similar.order, similar.names
    messages: dict[str, int] = {}
    left = MOST_MESSAGE_BYTES
    failures: list[list[list[int]]] = []
    for grade in order:
        rows: list[list[int]] = []
        for number, test in enumerate(grade.tests):
            if test.passed:
                continue
            text = _clip(_without_rule(test.detail) or test.message, _MOST_DETAIL)
            if text not in messages and len(text.encode("utf-8", "replace")) > left:
                text = _clip(test.message, _MOST_SHORT) if left > 0 else "see the JSON report"
            if text not in messages:
                left -= len(text.encode("utf-8", "replace"))
                messages[text] = len(messages)
            rows.append([number, messages[text], [*KINDS].index(test.kind)])
        failures.append(rows)
    pairs, copies = similar.pairs, similar.copies
    others = {name: len(order) + n for n, name in enumerate(sorted({c.right for c in copies}))}
    shown = {int(row) for pair in pairs for row in (pair.left, pair.right)}
    shown |= {int(copy.left) for copy in copies}
    written = {row: similar.sources[order[row].submission] for row in sorted(shown)}
    written |= {row: similar.known[name] for name, row in others.items()}
    return {
        "tests": [[test.name, test.rule] for test in order[0].tests],
        "kinds": [*KINDS.values()],
        "messages": [*messages],
        "failures": failures,
        "students": [*(names[grade.student] for grade in order), *others],
        "sources": {row: _clip(text_of(source), _MOST_SOURCE) for row, source in written.items()},
        "pairs": [
            [
                int(pair.left),
                others[pair.right] if pair.right in others else int(pair.right),
                [[*region.left, *region.right] for region in pair.regions],
            ]
            for pair in (*pairs, *copies)
        ],
    }


def _without_rule(detail: str) -> str:
    """Return a failure as `reporting.explain` words it, without its first line, the rule."""
    lines = detail.splitlines()
    if lines and lines[0].startswith("rule "):
        rest = dropwhile(lambda line: line.startswith(" "), lines[1:])
        return "\n".join(rest)
    return detail


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
