"""The similar submissions of a lab: pairs, equal files and copies of known sources; as CSV or JSON.

A pair is a reason to look, and no more; see `labkit.grading.reports.similarity` for its limits.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.marks.csv_files import inert
from labkit.grading.reading.choice import starter_of
from labkit.grading.reading.entry_name import short_names
from labkit.grading.reports.similarity import Pair, is_compared, known_in, similar_pairs
from labkit.grading.reports.statistics import by_lab
from labkit.running.under_test import root_of

SCHEMA = "labkit/pairs/v1"
# The most pairs in a report, so that a browser opens it at once.
MOST_PAIRS = 60
_ENGINE = "mini_vllm"
_MOST_NAMES = 8


class Row(NamedTuple):
    """A row of a list of pairs: the two names, with the score if the name is a student's."""

    pair: Pair
    left: str
    right: str


@dataclass(frozen=True)
class Similar:
    """The similar submissions among the grades of one lab.

    Attributes:
        order: the grades, the best first; a pair names a submission by its number in this order,
            see `row_name`.
        sources: the submitted files, by the grade's `submission`.
        known: other sources by name, such as the engine's modules.
        names: short names of the students, by the grade's name.
        groups: submissions with the same files: the numbers of their grades, by the first's name.
        same: those of the groups that have several submissions, and enough code to be compared.
        pairs: pairs of submissions, the most alike first.
        copies: submissions that contain a known source, or that are in it.
    """

    order: Sequence[Grade]
    sources: Mapping[str, bytes]
    known: Mapping[str, bytes]
    names: Mapping[str, str]
    groups: Mapping[str, list[int]]
    same: Sequence[str]
    pairs: Sequence[Pair]
    copies: Sequence[Pair]

    def rows(self, pairs: Iterable[Pair]) -> list[Row]:
        """Return pairs with the names for readers."""
        return [
            Row(pair, self.scored(pair.left),
                self.scored(pair.right) if pair.right in self.groups else pair.right)
            for pair in pairs
        ]  # fmt: skip

    def scored(self, name: str) -> str:
        """Return the students who handed in the same files, and their score."""
        numbers = self.groups[name]
        students = [self.names[self.order[number].student] for number in numbers]
        if len(students) > _MOST_NAMES:
            students[_MOST_NAMES:] = [f"{len(students) - _MOST_NAMES} more"]
        return f"{', '.join(students)} ({self.order[numbers[0]].score})"

    def counts(self) -> list[int]:
        """Return for each grade how many pairs it has, and how many others the same files."""
        alike = Counter(name for pair in self.pairs for name in (pair.left, pair.right))
        alike.update({name: len(self.groups[name]) - 1 for name in self.same})
        first_of = {number: name for name, numbers in self.groups.items() for number in numbers}
        return [alike[first_of[number]] for number in range(len(self.order))]


def row_name(number: int) -> str:
    """Return the name of a grade in pairs."""
    return f"{number:06}"


def similar_groups(
    grades: Iterable[Grade],
    sources: Mapping[str, bytes],
    labs: Sequence[Lab],
    earlier: Mapping[str, Mapping[str, bytes]],
) -> list[Similar]:
    """Return the similar submissions of each lab, and of each version of its tests.

    Args:
        grades: the grades of one lab or several.
        sources: the submitted files, by the grade's `submission`.
        labs: at least the labs of the grades.
        earlier: by lab, earlier submissions by name.
    """
    by_name = {lab.name: lab for lab in labs}
    similar = []
    for own in by_lab(grades):
        lab = by_name[own[0].lab]
        order = sorted(own, key=lambda grade: (-grade.score, grade.student, grade.submission))
        known = {**_known_sources(lab, labs), **earlier.get(lab.name, {})}
        similar.append(_similar(order, sources, lab, known))
    return similar


def _similar(
    order: Sequence[Grade], sources: Mapping[str, bytes], lab: Lab, known: Mapping[str, bytes]
) -> Similar:
    by_digest: dict[str, list[int]] = {}
    for number, grade in enumerate(order):
        by_digest.setdefault(grade.submission, []).append(number)
    groups = {row_name(numbers[0]): numbers for numbers in by_digest.values()}
    digests = {name: order[numbers[0]].submission for name, numbers in groups.items()}
    compared = {name: sources[digest] for name, digest in digests.items() if digest in sources}
    starter = starter_of(lab)
    return Similar(
        order=order,
        sources=sources,
        known=known,
        names=short_names({grade.student for grade in order}),
        groups=groups,
        same=[
            name
            for name, numbers in groups.items()
            if len(numbers) > 1 and name in compared and is_compared(compared[name], starter)
        ],
        pairs=similar_pairs(compared, starter, most=MOST_PAIRS),
        copies=known_in(compared, known, starter, most=MOST_PAIRS),
    )


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


@dataclass(frozen=True)
class _Line:
    """A pair in a file; its attributes are the columns of the CSV and the keys of the JSON.

    Attributes:
        lab: folder name of the lab.
        kind: `same file`, `similar`, or `known source`.
        likeness: the share of common code, up to 1.
        left, right: the students as grades name them; `right` may be a known source.
        left_score, right_score: their scores; None for a known source.
        left_lines, right_lines: the matching lines, as `3-9 12-20`.
    """

    lab: str
    kind: str
    likeness: float
    left: str
    left_score: int
    right: str
    right_score: int | None
    left_lines: str = ""
    right_lines: str = ""


def pairs_csv(labs: Iterable[Similar]) -> str:
    """Return the pairs of labs as CSV, a row for each; equal files are pairs as well."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_Line.__dataclass_fields__)
    for line in _lines(labs):
        cells = ("" if value is None else value for value in vars(line).values())
        writer.writerow(inert(cell) if isinstance(cell, str) else cell for cell in cells)
    return out.getvalue()


def pairs_json(labs: Iterable[Similar]) -> str:
    """Return the pairs of labs as JSON in ASCII; the keys are the columns of `pairs_csv`."""
    report = {"schema": SCHEMA, "pairs": [vars(line) for line in _lines(labs)]}
    return json.dumps(report, indent=1) + "\n"


def _lines(labs: Iterable[Similar]) -> list[_Line]:
    return [line for similar in labs for line in _lines_of(similar)]


def _lines_of(similar: Similar) -> list[_Line]:
    order = similar.order
    lines = []
    for name in similar.same:
        first, *others = (order[number] for number in similar.groups[name])
        lines += [
            _Line(first.lab, "same file", 1.0, first.student, first.score, grade.student,
                  grade.score)
            for grade in others
        ]  # fmt: skip
    for pair in (*similar.pairs, *similar.copies):
        left = order[int(pair.left)]
        other = order[int(pair.right)] if pair.right in similar.groups else None
        lines.append(
            _Line(
                left.lab,
                "known source" if other is None else "similar",
                pair.likeness,
                left.student,
                left.score,
                pair.right if other is None else other.student,
                None if other is None else other.score,
                _ranges(region.left for region in pair.regions),
                _ranges(region.right for region in pair.regions),
            )
        )
    return lines


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{first}-{last}" for first, last in ranges)
