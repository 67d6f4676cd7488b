"""The changes by a regrade: two JSON reports, student by student, the largest change first."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.errors import UsageError
from labkit.grading.grade import Grade
from labkit.grading.reading.entry_name import short_names
from labkit.grading.reports.fitting import fit
from labkit.grading.reports.json_junit import SCHEMA
from labkit.running.reporting.explain import WIDTH, GradedTest
from labkit.running.reporting.report import drawn
from labkit.running.reporting.showing import clip
from mini_vllm.text.whole_json import load_json

OPTION = "--diff"
_MOST_TESTS, _LONGEST_NAME, _LONGEST_WHY = 4, 200, 120
_END = "\n"
_Who = tuple[str, str]


class _Mark(NamedTuple):
    """A mark, and its parts besides the score: the late penalty, and the points given by hand."""

    mark: float
    late: float
    by_hand: float


@dataclass(frozen=True)
class Report:
    """A JSON report.

    Attributes:
        path: the path of the file.
        grades: by lab and student.
        marks: by lab and student, if the report has marks that can differ from the scores.
    """

    path: Path
    grades: Mapping[_Who, Grade]
    marks: "Mapping[_Who, _Mark]"


@dataclass(frozen=True)
class Change:
    """The change of one student.

    Attributes:
        old, new: the scores.
        marks: the marks; the scores, if a report has no marks.
        why: the reasons in words, one text each.
    """

    student: str
    lab: str
    old: int
    new: int
    marks: tuple[float, float]
    why: tuple[str, ...]

    @property
    def size(self) -> float:
        """The change of the score or of the mark, whichever is larger."""
        before, after = self.marks
        return max(abs(self.new - self.old), abs(after - before))


def read_report(path: Path) -> Report:
    """Return the report in a file that `--json` wrote.

    Raises:
        UsageError: the file is not a report.
    """
    try:
        report = load_json(path.read_text(encoding="utf-8"))
        if report["schema"] != SCHEMA:
            raise ValueError(f"its schema is {report['schema']!r}, not {SCHEMA!r}")
        grades = [_checked(Grade.from_json(row)) for row in report["grades"]]
        marks = dict(_mark(row) for row in report.get("marks", ()) if row["mark"] is not None)
    except OSError as error:
        raise UsageError(f"{OPTION} {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        why = clip(str(error).partition("\n")[0], _LONGEST_WHY)
        raise UsageError(
            f"{OPTION} {path} is not a report ({why}); name files written by grade --json"
        ) from None
    by_who = {(grade.lab, grade.student): grade for grade in grades}
    if len(by_who) < len(grades):
        who, _ = Counter((grade.lab, grade.student) for grade in grades).most_common(1)[0]
        raise UsageError(f"{OPTION} {path} has {who[1]!r} twice for {who[0]}")
    return Report(path, by_who, marks)


def _checked(grade: Grade) -> Grade:
    texts = [grade.student, grade.lab, grade.submission, grade.assignment, grade.seed, grade.mode]
    for test in grade.tests:
        texts += [test.name, test.rule, test.message, test.detail, test.for_student]
        if type(test.max_score) is not int:
            raise TypeError("points are not a number")
    texts += [*grade.remarks]
    texts += [text for text in (grade.fault, grade.looks_like) if text is not None]
    if not all(type(text) is str for text in texts):
        raise TypeError("a text is something else")
    return fit(grade)


def _mark(row: Any) -> tuple[_Who, _Mark]:
    numbers = [
        row["mark"],
        row["late_penalty"],
        *(adjustment["points"] for adjustment in row["points"]),
    ]
    if not all(type(number) in (int, float) for number in numbers):
        raise TypeError("a mark is not a number")
    return (row["lab"], row["student"]), _Mark(numbers[0], numbers[1], sum(numbers[2:]))


def changes(old: Report, new: Report) -> list[Change]:
    """Return the changes of students who are in both reports, the largest change first."""
    differences = []
    for who in old.grades.keys() & new.grades.keys():
        before, after = old.grades[who], new.grades[who]
        # In a report without marks, the scores are the marks.
        old_mark = old.marks.get(who, _Mark(before.score, 0, 0))
        new_mark = new.marks.get(who, _Mark(after.score, 0, 0))
        why = (*_reasons(before, after), *_reasons_of_marks(old_mark, new_mark))
        if before.score != after.score or why or old_mark != new_mark:
            marks = old_mark.mark, new_mark.mark
            differences.append(Change(who[1], who[0], before.score, after.score, marks, why))
    return sorted(differences, key=lambda change: (-change.size, change.lab, change.student))


def _reasons(old: Grade, new: Grade) -> Iterator[str]:
    if old.submission != new.submission:
        yield "handed in something else"
    if old.fault != new.fault:
        yield "now tests run" if new.fault is None else f"now no test runs: {new.fault}"
    if old.mode != new.mode:
        yield f"mode {old.mode}, now {new.mode}"
    if old.fault is not None or new.fault is not None:
        return
    before = {test.name: test for test in old.tests}
    after = {test.name: test for test in new.tests}
    moved = [*_moved(before, after)]
    yield from moved[:_MOST_TESTS]
    if len(moved) > _MOST_TESTS:
        yield f"and {len(moved) - _MOST_TESTS} more tests"


def _reasons_of_marks(old: _Mark, new: _Mark) -> Iterator[str]:
    if old.late != new.late:
        yield f"late {0 - old.late:g}, now {0 - new.late:g}"
    if old.by_hand != new.by_hand:
        yield f"by hand {old.by_hand:g}, now {new.by_hand:g}"


def _moved(before: Mapping[str, GradedTest], after: Mapping[str, GradedTest]) -> Iterator[str]:
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old is None and new is not None:
            yield f"{name} is new: {new.score} of {new.max_score}"
        elif new is None and old is not None:
            yield f"{name} is gone: {old.score} of {old.max_score}"
        elif old is not None and new is not None and old.passed != new.passed:
            became = "passes now" if new.passed else "fails now"
            why = "" if new.passed else f": {new.message.partition(_END)[0]}"
            yield f"{name} {became} ({new.score - old.score:+}){why}"
        elif old is not None and new is not None and old.max_score != new.max_score:
            yield f"{name} is worth {new.max_score}, not {old.max_score}"


def diff_text(old: Report, new: Report, *, colour: bool, width: int = WIDTH) -> str:
    """Return the changes from one report to another, for people."""
    differences = changes(old, new)
    return drawn(lambda console: _print(console, old, new, differences), colour=colour, width=width)


def _print(console: Console, old: Report, new: Report, differences: Sequence[Change]) -> None:
    if differences:
        console.print(_table(console, differences))
        console.print()
    for words, report, other in (("new", new, old), ("missing", old, new)):
        for who in sorted(report.grades.keys() - other.grades.keys()):
            grade = report.grades[who]
            name = clip(grade.student, _LONGEST_NAME)
            console.print(
                Text(f"{words}: {name} ({grade.lab}) {grade.score}/{grade.max_score}"),
                soft_wrap=True,
            )
    console.print(Text("\n".join(_summary(old, new, differences))), soft_wrap=True)


def _table(console: Console, differences: Sequence[Change]) -> Table:
    several = len({change.lab for change in differences}) > 1
    marked = any(change.marks != (change.old, change.new) for change in differences)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    names = short_names({change.student for change in differences})
    table.add_column("student", overflow="fold", max_width=console.width // 3)
    if several:
        table.add_column("lab", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("change", justify="right", no_wrap=True)
    if marked:
        table.add_column("mark", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for change in differences:
        cells = [
            clip(names[change.student], _LONGEST_NAME),
            *([change.lab] if several else []),
            f"{change.old} -> {change.new}",
            f"{change.new - change.old:+}" if change.new != change.old else "0",
            *([f"{change.marks[0]:g} -> {change.marks[1]:g}"] if marked else []),
            "\n".join(clip(why, _LONGEST_WHY) for why in change.why),
        ]
        table.add_row(*map(Text, cells))
    return table


def _summary(old: Report, new: Report, differences: Sequence[Change]) -> Iterator[str]:
    """Yield for each lab how many changed, and the differences that affect all students."""
    labs: dict[str, list[list[Grade]]] = defaultdict(lambda: [[], []])
    for place, report in enumerate((old, new)):
        for grade in report.grades.values():
            labs[grade.lab][place].append(grade)
    for lab, (before, after) in sorted(labs.items()):
        here = [change for change in differences if change.lab == lab]
        more = sum(change.new > change.old for change in here)
        fewer = sum(change.new < change.old for change in here)
        names = [{grade.student for grade in some} for some in (before, after)]
        yield (
            f"{lab}: {more} with more points, {fewer} with fewer, {len(names[1] - names[0])} new, "
            f"{len(names[0] - names[1])} missing, of {len(after)}"
        )
        if before and after:
            yield from _for_all(before, after)


def _for_all(before: Sequence[Grade], after: Sequence[Grade]) -> Iterator[str]:
    digests = [{grade.assignment for grade in grades} for grades in (before, after)]
    seeds = [{grade.seed for grade in grades} for grades in (before, after)]
    if seeds[0] != seeds[1]:
        yield "  the seed changed, so random cases differ"
    if digests[0] != digests[1]:
        short = [", ".join(sorted(digest[:12] for digest in some)) for some in digests]
        what = "tests, grader or references" if seeds[0] == seeds[1] else "the assignment"
        yield f"  {what} changed: {short[0]} -> {short[1]}"
    else:
        yield "  tests, grader, references and seed are the same"
