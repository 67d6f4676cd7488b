"""One page about a cohort, for its instructors: scores, tests, mistakes, likenesses, every failure.

The page is one file that makes no request. Its charts are SVG, and its Content-Security-Policy
allows its own script and style only, so nothing in a submission can run or load anything. Equal
grades make equal bytes. Unfolding, sorting and searching need JavaScript.

The page is not for students: it names hidden tests and shows the work of several students side by
side.
"""

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.reading.entry_name import short_names
from labkit.grading.reading.source_text import text_of, unusual
from labkit.grading.reports.charts import KINDS, SHADES, HeatMap, heat_map, histogram, scatter
from labkit.grading.reports.fitting import fit
from labkit.grading.reports.similarity import (
    FEWEST,
    KNOWN_THRESHOLD,
    THRESHOLD,
    Pair,
    is_compared,
    known_in,
    names_in,
    similar_pairs,
)
from labkit.grading.reports.statistics import Statistics, lab_statistics
from labkit.running.diagnose import Mistake, read_mistakes
from labkit.running.under_test import root_of

_HERE = Path(__file__).resolve().parent
_ENGINE = "mini_vllm"
# The most that the page holds, so that a browser opens it at once.
MOST_PAIRS = 60
MOST_MESSAGE_BYTES = 3 << 20
_MOST_DETAIL, _MOST_SHORT = 1_500, 160
_MOST_SOURCE = 24_000
_MOST_NAMES = 8


@dataclass(frozen=True)
class _Student:
    """A row of the table of submissions.

    Attributes:
        grade: the grade.
        name: the student's name.
        tasks: the points of each task.
        alike: the number of pairs with this submission, and of others with the same file.
        unusual: unusual things in the source.
        failed: the number of failed tests.
        mark: the mark, if it can differ from the score.
    """

    grade: Grade
    name: str
    tasks: list[int]
    alike: int
    unusual: list[str]
    failed: int
    mark: Mark | None


class _Alike(NamedTuple):
    """A row of a list of pairs: the two names, with the score if the name is a student's."""

    pair: Pair
    left: str
    right: str


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
    scatter: Markup
    heat_map: HeatMap
    tasks: dict[int, str]
    mistakes: dict[str, Mistake]
    students: list[_Student]
    equal: list[str]
    pairs: list[_Alike]
    most_pairs: bool
    copies: list[_Alike]
    data: dict[str, Any]


def write_html(
    grades: Sequence[Grade],
    sources: Mapping[str, bytes],
    path: Path,
    labs: Sequence[Lab],
    marks: Mapping[tuple[str, str], Mark] | None,
    earlier: Mapping[str, Mapping[str, bytes]],
) -> None:
    """Write the page.

    Args:
        grades: the grades of one lab or several.
        sources: the students' files by the grade's `submission`.
        path: the file to write.
        labs: at least the labs of the grades; they have the starters and the texts of mistakes.
        marks: by student and lab, if they can differ from the scores.
        earlier: by lab, earlier submissions.
    """
    by_name = {lab.name: lab for lab in labs}
    groups: dict[tuple[str, str], list[Grade]] = defaultdict(list)
    for grade in map(fit, grades):
        groups[grade.lab, grade.assignment].append(grade)
    sections = [
        _section(
            groups[key],
            sources,
            by_name[key[0]],
            number,
            marks or {},
            {**_known_sources(by_name[key[0]], labs), **earlier.get(key[0], {})},
        )
        for number, key in enumerate(sorted(groups))
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "ensure_ascii": False}
    style, script = (
        (_HERE / "templates" / name).read_text(encoding="utf-8")
        for name in ("report.css", "report.js")
    )
    page = environment.get_template("report.html.j2").render(
        sections=sections,
        marked=marks is not None,
        plain=plain,
        kinds=KINDS,
        shades=SHADES,
        threshold=THRESHOLD,
        known_threshold=KNOWN_THRESHOLD,
        fewest=FEWEST,
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
    )
    path.write_bytes(page.encode("utf-8", "backslashreplace"))


def _known_sources(lab: Lab, labs: Sequence[Lab]) -> dict[str, bytes]:
    """Return the sources that students can copy from, by path: the engine's modules, and references
    if the edition has some.

    Args:
        lab: the lab of the submissions.
        labs: all labs of the repository.
    """
    root = root_of(lab)
    files = [*(root / _ENGINE).rglob("*.py"), *(other.solution for other in labs)]
    paths = [path for path in files if path.exists()]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _section(
    grades: Sequence[Grade],
    sources: Mapping[str, bytes],
    lab: Lab,
    number: int,
    marks: Mapping[tuple[str, str], Mark],
    known: Mapping[str, bytes],
) -> _Section:
    """Return the template's values for the grades of one lab, the best first."""
    order = sorted(grades, key=lambda grade: (-grade.score, grade.student, grade.submission))
    numbers = lab_statistics(order)
    names = short_names({grade.student for grade in order})
    equal = _equal(order)
    compared = _compared(order, sources, equal)
    handed_out = lab.pristine_starter if lab.pristine_starter.exists() else lab.starter
    starter = handed_out.read_bytes()
    pairs = similar_pairs(compared, starter, most=MOST_PAIRS)
    copies = known_in(compared, known, starter, most=MOST_PAIRS)
    alike = Counter(row for pair in pairs for row in (pair.left, pair.right))
    scored = {row: _scored(rows, order, names) for row, rows in equal.items()}
    same = [
        row
        for row, rows in equal.items()
        if len(rows) > 1 and row in compared and is_compared(compared[row], starter)
    ]
    others = Counter({row: len(equal[row]) - 1 for row in same})
    first_of = {number: row for row, rows in equal.items() for number in rows}
    return _Section(
        id=f"lab{number}",
        name=order[0].lab,
        title=lab.title,
        first=order[0],
        modes=sorted({grade.mode for grade in order}),
        numbers=numbers,
        histogram=histogram(numbers),
        scatter=scatter(numbers),
        heat_map=heat_map(order),
        tasks={task.number: task.title for task in lab.tasks},
        mistakes={mistake.name: mistake for mistake in read_mistakes(lab.path)},
        students=[
            _Student(
                grade=grade,
                name=names[grade.student],
                tasks=[sum(t.score for t in grade.tests if t.task == n) for n in numbers.tasks],
                alike=alike[first_of[row]] + others[first_of[row]],
                unusual=_unusual(sources.get(grade.submission, b"")),
                failed=sum(not test.passed for test in grade.tests),
                mark=marks.get((grade.student, grade.lab)),
            )
            for row, grade in enumerate(order)
        ],
        equal=[scored[row] for row in same],
        pairs=[_Alike(pair, scored[pair.left], scored[pair.right]) for pair in pairs],
        most_pairs=len(pairs) == MOST_PAIRS,
        copies=[_Alike(pair, scored[pair.left], pair.right) for pair in copies],
        data=_data(order, names, sources, pairs, copies, known),
    )


def _row(number: int) -> str:
    """Return the name of a submission in the search for pairs."""
    return f"{number:06}"


def _equal(order: Sequence[Grade]) -> dict[str, list[int]]:
    """Return the submissions with the same files, by the row of the first of them."""
    rows: dict[str, list[int]] = {}
    for number, grade in enumerate(order):
        rows.setdefault(grade.submission, []).append(number)
    return {_row(numbers[0]): numbers for numbers in rows.values()}


def _compared(
    order: Sequence[Grade], sources: Mapping[str, bytes], equal: Mapping[str, Sequence[int]]
) -> dict[str, bytes]:
    """Return the different sources by the row of the first submission that has them."""
    digests = {row: order[numbers[0]].submission for row, numbers in equal.items()}
    return {row: sources[digest] for row, digest in digests.items() if digest in sources}


def _scored(rows: Sequence[int], order: Sequence[Grade], names: Mapping[str, str]) -> str:
    """Return the names of students who handed in the same files, and their score."""
    students = [names[order[row].student] for row in rows]
    if len(students) > _MOST_NAMES:
        students[_MOST_NAMES:] = [f"{len(students) - _MOST_NAMES} more"]
    return f"{', '.join(students)} ({order[rows[0]].score})"


def _unusual(source: bytes) -> list[str]:
    return [*unusual(source, names_in(source))]


def _data(
    order: Sequence[Grade],
    names: Mapping[str, str],
    sources: Mapping[str, bytes],
    pairs: Sequence[Pair],
    copies: Sequence[Pair],
    known: Mapping[str, bytes],
) -> dict[str, Any]:
    """Return the texts that the script unfolds on demand; each message is included once."""
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
    others = {name: len(order) + n for n, name in enumerate(sorted({c.right for c in copies}))}
    shown = {int(row) for pair in pairs for row in (pair.left, pair.right)}
    shown |= {int(copy.left) for copy in copies}
    written = {row: sources[order[row].submission] for row in sorted(shown)}
    written |= {row: known[name] for name, row in others.items()}
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
