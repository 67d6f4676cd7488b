"""How grades read in a terminal: one in full, many as a table with what they come to.

Colour only repeats what the words say; without a terminal it is plain text.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.running.diagnose import read_mistakes
from labkit.running.reporting.explain import WIDTH
from labkit.running.reporting.failures import print_wrapped
from labkit.running.reporting.report import drawn, of_task, print_score, print_tests, tally

_LONGEST_NOTE = 160


def report_text(
    grades: Sequence[Grade], labs: Mapping[str, Lab], *, colour: bool, width: int = WIDTH
) -> str:
    """Return grades for people.

    Args:
        grades: at least one.
        labs: by folder name, at least those of the grades.
        colour: whether to use colours.
        width: columns, for the table of many.
    """
    if len(grades) == 1:
        lab = labs[grades[0].lab]
        return drawn(lambda console: _print_one(console, grades[0], lab), colour=colour)
    return drawn(lambda console: _print_many(console, grades, labs), colour=colour, width=width)


def _print_one(console: Console, grade: Grade, lab: Lab) -> None:
    console.print(Text(f"{grade.lab}, handed in by {grade.student}"))
    console.print(Text(f"  {_mode(grade)}   seed {grade.seed}"))
    console.print()
    if grade.fault is not None:
        console.print(Text(f"No test could run: {grade.fault}\n"))
    else:
        print_tests(console, lab, grade.tests)
    if symptom := _symptom(grade, lab):
        print_wrapped(console, "looks like: ", symptom)
    print_score(console, grade.score, grade.max_score)


def _print_many(console: Console, grades: Sequence[Grade], labs: Mapping[str, Lab]) -> None:
    several = len({grade.lab for grade in grades}) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("student", overflow="fold", max_width=console.width // 2)
    if several:
        table.add_column("lab", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("tests by task", no_wrap=True)
    table.add_column("note", overflow="fold")
    for grade in grades:
        lab = labs[grade.lab]
        tallies = [tally(of_task(grade.tests, task.number)) for task in lab.tasks]
        cells = [
            grade.student,
            *([lab.label] if several else []),
            f"{grade.score}/{grade.max_score}",
            " ".join(tallies),
            _note(grade, lab),
        ]
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print()
    console.print(Text("\n".join(_summary(grades))))


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
    """Return what to know about a grade in a few words: why nothing ran, or a common mistake."""
    if grade.fault is not None:
        return _short(grade.fault)
    worth = [test for test in grade.tests if test.max_score]
    if {test.kind for test in worth} == {"unwritten"}:
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
    line = text.splitlines()[0]
    return line if len(line) <= _LONGEST_NOTE else line[: _LONGEST_NOTE - 1] + "…"
