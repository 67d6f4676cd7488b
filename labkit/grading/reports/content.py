"""The content of reports: grades, marks and sources, with names or without.

Everything except the grades is read and checked before the grading, so that a mistake costs no
hours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.errors import UsageError
from labkit.grading.grade import Grade
from labkit.grading.marks.inputs import read_markings
from labkit.grading.marks.mark import Mark
from labkit.grading.marks.marking import Marking
from labkit.grading.marks.students import Student, listed
from labkit.grading.reading.inputs import collect
from labkit.grading.reading.one_student import Course
from labkit.grading.reading.submission import Submission, one_line
from labkit.grading.reports.anonymous import FILE, Pseudonyms, read_key
from labkit.grading.reports.gradebooks import check_roster
from labkit.grading.reports.movement import scores_before
from labkit.grading.reports.options import ReportOptions


@dataclass(frozen=True)
class ReportContent:
    """The content of reports.

    Attributes:
        grades: the grades of one lab or several.
        sources: the submitted files, by the grade's `submission`.
        marks: by student and lab, named as in the grades.
        others: the marks of students on the roster who handed in nothing.
        marked: whether a mark can differ from the score.
        by_student: for each lab, the calculation of marks, and the marks by student.
        key: the names of the pseudonyms, if the grades have pseudonyms.
        earlier: by lab, earlier submissions by their names in reports.
        before: by student and lab, named as in the grades, the score before its last change, if the
            ledger has an earlier grading.
    """

    grades: list[Grade]
    sources: Mapping[str, bytes]
    marks: Mapping[tuple[str, str], Mark]
    others: Sequence[Mark]
    marked: bool
    by_student: Sequence[tuple[Marking, Mapping[Student, Mark]]]
    key: Mapping[str, str] = field(default_factory=dict)
    earlier: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    before: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def shown_marks(self) -> Mapping[tuple[str, str], Mark] | None:
        """The marks, if they can differ from the scores."""
        return self.marks if self.marked else None

    @property
    def listed_marks(self) -> list[Mark] | None:
        """The marks of all students, if they can differ from the scores."""
        return [*self.marks.values(), *self.others] if self.marked else None


class ReportInputs:
    """The inputs of reports besides the grades.

    Args:
        options: the requested reports, and the inputs of marks.
        submissions: the submissions to grade.
        root: the repository.

    Raises:
        UsageError: a file cannot be read or understood, or options do not fit together.
    """

    def __init__(
        self, options: ReportOptions, submissions: Sequence[Submission], root: Path
    ) -> None:
        entries: dict[str, dict[str, str]] = {}
        for submission in submissions:
            by_name = entries.setdefault(submission.lab, {})
            by_name[one_line(submission.student)] = submission.digest
        self._ledger = options.marks.ledger
        self._markings = read_markings(options.marks, entries, find_labs(root))
        for option, path in (("--canvas", options.canvas), ("--moodle", options.moodle)):
            if path is not None and len(entries) > 1:
                raise UsageError(f"{option} is for one lab at a time; name the lab, as --lab 03")
            if path is not None:
                check_roster(option, self._markings[0].roster)
        self._sources = {
            submission.digest: submission.sources.get(submission.lab, b"")
            for submission in submissions
        }
        self._earlier = {}
        if options.earlier is not None:
            labs = find_labs(root)
            self._earlier = {
                lab.name: _earlier_sources(options.earlier, lab, labs)
                for lab in labs
                if lab.name in entries
            }
        self._key = read_key(root / FILE) if options.anonymous else None
        self._doubtful = [
            one_line(submission.student)
            for submission in submissions
            if any(remark.is_doubt for remark in submission.remarks)
        ]

    @property
    def warnings(self) -> list[str]:
        """Oddities that are not mistakes, for the instructor."""
        named = self._key is None
        texts = [text for marking in self._markings for text in marking.warnings(named=named)]
        if self._doubtful:
            texts.append(
                f"{len(self._doubtful)} handed in several files of which each may be the lab's; "
                "reports and feedback say which was graded"
                + (f": {listed(self._doubtful)}" if named else "")
            )
        return texts

    def changes(self, grades: Sequence[Grade]) -> list[str]:
        """Return each mark that differs from the last grading with the ledger, with the reason.

        Call it once: then the ledger has the new marks.
        """
        if self._ledger is None:
            return []
        by_lab = {marking.lab: marking.changes(grades, self._ledger) for marking in self._markings}
        texts = [
            f"{text} ({lab})" if len(by_lab) > 1 else text
            for lab, texts in by_lab.items()
            for text in texts
        ]
        if not texts:
            return []
        first = f"marks that differ from the last grading with {self._ledger}: {len(texts)}"
        if self._key is not None:
            return [f"{first}; grade without --anonymous to see them"]
        return [first, *texts]

    def of(self, grades: Sequence[Grade]) -> ReportContent:
        """Return the content of reports on these grades."""
        by_student = [(marking, marking.marks(grades)) for marking in self._markings]
        everybody = [mark for _, marks in by_student for mark in marks.values()]
        content = ReportContent(
            grades=[*grades],
            sources=self._sources,
            marks={(mark.student, mark.lab): mark for mark in everybody if mark.score is not None},
            others=[mark for mark in everybody if mark.score is None],
            marked=any(marking.changes_scores for marking in self._markings),
            by_student=by_student,
            earlier=self._earlier,
            before=(
                {} if self._ledger is None else scores_before(self._ledger, self._markings, grades)
            ),
        )
        return content if self._key is None else _anonymous(content, self._key)


def _earlier_sources(path: Path, lab: Lab, labs: list[Lab]) -> dict[str, bytes]:
    """Return the earlier submissions for a lab, by their names in reports.

    Args:
        path: a folder or zip of submissions, last year's for example.
        lab: the lab.
        labs: all labs of the repository.

    Raises:
        UsageError: there is nothing to read.
    """
    return {
        f"{path.name}: {submission.student}": data
        for submission in collect([path], Course(labs, lab))
        for data in submission.sources.values()
    }


def _anonymous(content: ReportContent, key: bytes) -> ReportContent:
    grades: list[Grade] = []
    marks: list[Mark] = []
    sources: dict[str, bytes] = {}
    names: dict[str, str] = {}
    before: dict[tuple[str, str], int] = {}
    for marking, by_student in content.by_student:
        pseudonyms = Pseudonyms(marking.students.all, key)
        for grade in content.grades:
            if grade.lab == marking.lab:
                grades.append(pseudonyms.grade(grade))
                source = content.sources.get(grade.submission, b"")
                sources[grade.submission] = pseudonyms.source(source, grade.student)
        marks += [pseudonyms.mark(mark, student) for student, mark in by_student.items()]
        before |= {
            (name, marking.lab): content.before[student.entry, marking.lab]
            for student, name in pseudonyms.names.items()
            if student.entry is not None and (student.entry, marking.lab) in content.before
        }
        names |= {name: student.entry or student.name for student, name in pseudonyms.names.items()}
    # In the order of names, a place would reveal the student.
    grades.sort(key=lambda grade: (grade.lab, grade.student))
    marks.sort(key=lambda mark: (mark.lab, mark.student))
    return ReportContent(
        grades=grades,
        sources=sources,
        marks={(mark.student, mark.lab): mark for mark in marks if mark.score is not None},
        others=[mark for mark in marks if mark.score is None],
        marked=content.marked,
        by_student=(),
        key=dict(sorted(names.items())),
        before=before,
    )
