"""A mark: the score, less the penalty for late work, plus the points given by hand.

The score stays the sum of the tests' points; every place that shows a mark shows the score as well.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from labkit.grading.marks.extensions import EXCUSED, Extension
from labkit.grading.marks.given_points import Adjustment
from labkit.running.reporting.showing import counted


@dataclass(frozen=True)
class Mark:
    """A student's mark for a lab.

    Attributes:
        student: the grade's name of the student; the roster's name if nothing was handed in.
        lab: folder name of the lab.
        score: the points earned in the tests; None if nothing was handed in.
        max_score: the points of all tests.
        late: the points taken off for being late.
        adjustments: points given by hand.
        first, last, email: as in the roster.
        submitted, due: times in ISO 8601, or "". `due` is the student's own due time.
        extension: the student's extension or excuse, or None.
        days: the late days that the student used.
    """

    student: str
    lab: str
    score: int | None
    max_score: int
    late: Decimal = Decimal(0)
    adjustments: tuple[Adjustment, ...] = ()
    first: str = ""
    last: str = ""
    email: str = ""
    submitted: str = ""
    due: str = ""
    extension: Extension | None = None
    days: int = 0

    @property
    def is_excused(self) -> bool:
        """Whether the lab does not count for the student."""
        return self.extension is not None and self.extension.is_excuse

    @property
    def exists(self) -> bool:
        """Whether there is anything to mark, a score or points by hand, and no excuse."""
        if self.is_excused:
            return False
        return self.score is not None or any(adjustment.points for adjustment in self.adjustments)

    @property
    def by_hand(self) -> Decimal:
        """The sum of the points given by hand."""
        return sum((adjustment.points for adjustment in self.adjustments), Decimal(0))

    @property
    def total(self) -> Decimal:
        """The score less the late penalty, plus the points given by hand; never below 0.

        The penalty does not reduce the points given by hand; these may lift the mark above
        `max_score`.
        """
        worked = max(Decimal(self.score or 0) - self.late, Decimal(0))
        return max(worked + self.by_hand, Decimal(0))

    @property
    def text(self) -> str:
        """The mark for people."""
        return EXCUSED if self.is_excused else plain(self.total)

    def lines(self) -> list[str]:
        """Return the sum that makes the mark, a line per part, for people.

        If the mark is only the score, this is one line.
        """
        if self.extension is not None and self.is_excused:
            return [f"{EXCUSED}: {self.extension.reason}".removesuffix(": ")]
        score = "nothing handed in" if self.score is None else f"{self.score} for the tests"
        lines = [score]
        if self.late:
            lines.append(f"-{plain(self.late)} for being late")
        lines += [
            (
                f"{'' if adjustment.points < 0 else '+'}{plain(adjustment.points)} "
                f"{adjustment.reason}"
            ).rstrip()
            for adjustment in self.adjustments
            if adjustment.points
        ]
        if self.extension is not None and self.due:
            lines.append(f"due {self.due}: {self.extension.reason}".removesuffix(": "))
        if self.days:
            lines.append(f"{counted(self.days, 'late day')} used")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the mark as in a report; `schemas/report.schema.json` describes the form."""
        return {
            "student": self.student,
            "lab": self.lab,
            "score": self.score,
            "max_score": self.max_score,
            "late_penalty": number(self.late),
            "points": [
                {"points": number(adjustment.points), "reason": adjustment.reason}
                for adjustment in self.adjustments
            ],
            "mark": number(self.total) if self.exists else None,
            **({"late_days": self.days} if self.days else {}),
            **(
                {}
                if self.extension is None
                else {"extension": self.extension.text, "extension_reason": self.extension.reason}
            ),
        }


def plain(value: Decimal) -> str:
    """Return a number as people write it: 85, 92.5."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number(value: Decimal) -> int | float:
    """Return a number as JSON has it."""
    return int(value) if value == value.to_integral_value() else float(value)
