"""A summary of a grading as plain text, short enough for a mail, without names and the seed.

It has no hidden tests either, so it may go to the class as well as to colleagues.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.reports.content import ReportContent
from labkit.grading.reports.fitting import line
from labkit.grading.reports.movement import movement_of
from labkit.grading.reports.statistics import by_lab, common_mistakes, failed_most, lab_statistics

_WIDTH, _INDENT = 72, 12
_MOST_TESTS = _MOST_MISTAKES = 3


def summary_text(content: ReportContent, labs: Mapping[str, Lab]) -> str:
    """Return the summary: a paragraph for each lab, and for each version of its tests.

    Args:
        content: the grades of one lab or several, and their marks.
        labs: by folder name, at least those of the grades.
    """
    texts = []
    for grades in by_lab(content.grades):
        lab = labs[grades[0].lab]
        head = f"{lab.label}, {lab.title}: {_submissions(len(grades))}"
        texts.append("\n".join([head, *map(_wrapped, _rows(grades, lab, content))]))
    return "\n\n".join(texts)


def _rows(grades: Sequence[Grade], lab: Lab, content: ReportContent) -> Iterator[tuple[str, str]]:
    """Yield the rows of a lab: a word, and a text."""
    numbers = lab_statistics(grades)
    full = sum(grade.score == grade.max_score for grade in grades)
    none = sum(grade.score == 0 for grade in grades)
    yield (
        "points",
        f"median {numbers.median:g}, mean {numbers.mean:g} of {numbers.max_score}; "
        f"{full} with every point, {none} with none",
    )
    if content.marked:
        marks = [content.marks[grade.student, grade.lab] for grade in grades]
        late, by_hand = sum(bool(mark.late) for mark in marks), sum(bool(m.by_hand) for m in marks)
        yield "marks", f"{late} late with a deduction, {by_hand} with points by hand"
    if (movement := movement_of(grades, content.before)) is not None:
        yield (
            "before",
            f"{movement.more} with more points now, {movement.fewer} with fewer; median "
            f"{movement.median_before:g}, now {movement.median_now:g}",
        )
    titles = {task.number: task.title for task in lab.tasks}
    shares = [f"{task} {titles.get(task, '')} {share:.0%}" for task, share in numbers.tasks.items()
              if task in numbers.task_histograms]  # fmt: skip
    if shares:
        yield "tasks", "; ".join(shares)
    hardest = [item for item in failed_most(numbers, len(numbers.items))
               if item.visibility == "visible"]  # fmt: skip
    for item in hardest[:_MOST_TESTS]:
        yield "hard", f"{item.passed} of {numbers.attempts} passed: {line(item.rule)}"
    for mistake in common_mistakes(numbers, lab)[:_MOST_MISTAKES]:
        yield "mistake", f"in {_submissions(numbers.mistakes[mistake.name])}: {mistake.symptom}"


def _submissions(count: int) -> str:
    return f"{count} submission{'' if count == 1 else 's'}"


def _wrapped(row: tuple[str, str]) -> str:
    word, text = row
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=f"  {word}".ljust(_INDENT),
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
    )
