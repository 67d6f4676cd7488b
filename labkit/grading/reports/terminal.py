"""Grades in a terminal: a single grade in full, several as a table with a summary.

Colour only repeats the words; without a terminal, the output is plain text.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.reading.entry_name import short_names
from labkit.grading.reports.fitting import fit, line
from labkit.running.diagnose import read_mistakes
from labkit.running.reporting.explain import WIDTH
from labkit.running.reporting.failures import print_wrapped
from labkit.running.reporting.report import drawn, print_score, print_tests
from labkit.running.reporting.showing import clip
from labkit.running.reporting.tasks import of_task, tally
from labkit.running.result_kind import ResultKind

Marks: TypeAlias = Mapping[tuple[str, str], Mark]
_LONGEST_NAME, _LONGEST_NOTE = 300, 160


def report_text(
    grades: Sequence[Grade],
    labs: Mapping[str, Lab],
    *,
    colour: bool,
    width: int = WIDTH,
    marks: Marks | None = None,
) -> str:
    """Return grades for people.

    Args:
        grades: at least one.
        labs: by folder name, at least those of the grades.
        colour: whether to use colours.
        width: columns, for the table of several grades.
        marks: by student and lab, if they can differ from the scores.
    """
    if len(grades) == 1:
        lab = labs[grades[0].lab]
        return drawn(lambda console: _print_grade(console, grades[0], lab, marks), colour=colour)
    return drawn(
        lambda console: _print_table(console, grades, labs, marks), colour=colour, width=width
    )


def _print_grade(console: Console, grade: Grade, lab: Lab, marks: Marks | None) -> None:
    key = grade.student, grade.lab
    grade = fit(grade)
    console.print(Text(f"{grade.lab}, handed in by {clip(grade.student, _LONGEST_NAME)}"))
    console.print(Text(f"  {_mode(grade)}   seed {grade.seed}"))
    console.print()
    if grade.fault is not None:
        console.print(Text(f"No test could run: {grade.fault}\n"))
    else:
        print_tests(console, lab, grade.tests)
    for remark in grade.remarks:
        print_wrapped(console, "remark      ", remark)
    if symptom := _symptom(grade, lab):
        print_wrapped(console, "looks like: ", symptom)
    print_score(console, grade.score, grade.max_score)
    if mark := (marks or {}).get(key):
        print_wrapped(console, "mark        ", f"{mark.text} = {'; '.join(mark.lines())}")


def _print_table(
    console: Console, grades: Sequence[Grade], labs: Mapping[str, Lab], marks: Marks | None
) -> None:
    several = len({grade.lab for grade in grades}) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("student", overflow="fold", max_width=console.width // 2)
    if several:
        table.add_column("lab", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    if marks is not None:
        for title in ("late", "by hand", "mark"):
            table.add_column(title, justify="right", no_wrap=True)
    table.add_column("tests by task", no_wrap=True)
    table.add_column("note", overflow="fold")
    names = short_names({grade.student for grade in grades})
    for grade in grades:
        printable, lab = fit(grade), labs[grade.lab]
        mark = (marks or {}).get((grade.student, grade.lab))
        tallies = [tally(of_task(printable.tests, task.number)) for task in lab.tasks]
        cells = [
            line(names[grade.student], _LONGEST_NAME),
            *([lab.label] if several else []),
            f"{grade.score}/{grade.max_score}",
            *([] if marks is None else _mark_cells(mark)),
            " ".join(tallies),
            _note(printable, lab),
        ]
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print()
    console.print(Text("\n".join(_summary(grades))))


def _mark_cells(mark: Mark | None) -> list[str]:
    if mark is None:
        return ["", "", ""]
    late, by_hand = (plain(points) if points else "" for points in (-mark.late, mark.by_hand))
    return [late, by_hand, mark.text]


def _summary(grades: Sequence[Grade]) -> list[str]:
    lines = []
    for lab in sorted({grade.lab for grade in grades}):
        rows = [grade for grade in grades if grade.lab == lab]
        full = sum(grade.score == grade.max_score for grade in rows)
        none = sum(grade.score == 0 for grade in rows)
        middle = median(grade.score for grade in rows)
        lines.append(
            f"{lab}: {len(rows)} graded, {full} with every point, {none} with none, "
            f"median {middle:g} of {rows[0].max_score}"
        )
    lines.append(f"{_mode(grades[0])}   seed {grades[0].seed}")
    return lines


def _mode(grade: Grade) -> str:
    walls = " (NOT walled in: for your own code only)" if grade.mode == "trust" else ""
    return f"mode {grade.mode}{walls}"


def _note(grade: Grade, lab: Lab) -> str:
    """Return a short note on a grade: why nothing ran, or a common mistake; and any remarks."""
    texts = [*map(_short, grade.remarks), _reason(grade, lab)]
    return "; ".join(filter(None, texts))


def _reason(grade: Grade, lab: Lab) -> str:
    if grade.doubt is not None:
        return _short(grade.doubt)
    if grade.fault is not None:
        return _short(grade.fault)
    worth = [test for test in grade.tests if test.max_score]
    if {test.kind for test in worth} == {ResultKind.UNWRITTEN}:
        return "nothing is written yet"
    messages = {test.message for test in worth}
    if grade.score == 0 and len(messages) == 1:
        return _short(min(messages))
    symptom = _symptom(grade, lab)
    return f"looks like: {_short(symptom)}" if symptom else ""


def _symptom(grade: Grade, lab: Lab) -> str:
    symptoms = {mistake.name: mistake.symptom for mistake in read_mistakes(lab.path)}
    return symptoms.get(grade.looks_like or "", "")


def _short(text: str) -> str:
    return clip(text.partition("\n")[0], _LONGEST_NOTE)
