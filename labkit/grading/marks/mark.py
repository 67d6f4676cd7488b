"""A mark: what a score comes to when late work and points given by hand are counted.

The score stays what the tests earned; wherever a mark is shown, the score is beside it.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from labkit.grading.marks.given_points import Adjustment


@dataclass(frozen=True)
class Mark:
    """What a student gets for a lab.

    Attributes:
        student: as the grade calls them; what the roster calls them where nothing was handed in.
        lab: folder name of the lab.
        score: what the tests earned; None where nothing was handed in.
        max_score: what the tests are worth.
        late: the points that being late costs.
        adjustments: points by hand.
        first, last, email: as the roster has them.
        submitted, due: times in ISO 8601, or "".
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

    @property
    def exists(self) -> bool:
        """Whether there is anything to mark: a score, or points by hand."""
        return self.score is not None or any(adjustment.points for adjustment in self.adjustments)

    @property
    def by_hand(self) -> Decimal:
        """The sum of the points by hand."""
        return sum((adjustment.points for adjustment in self.adjustments), Decimal(0))

    @property
    def total(self) -> Decimal:
        """The score less what being late costs, plus the points by hand; never below 0.

        Being late costs nothing of the points by hand, which may lift it above `max_score`.
        """
        worked = max(Decimal(self.score or 0) - self.late, Decimal(0))
        return max(worked + self.by_hand, Decimal(0))

    def lines(self) -> list[str]:
        """Return how it comes about, a line each, for people; nothing but the score is one line."""
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
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return it as a report has it; `schemas/report.schema.json` describes that."""
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
        }


def plain(value: Decimal) -> str:
    """Return a number as people write it: 85, 92.5."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number(value: Decimal) -> int | float:
    """Return a number as JSON has it."""
    return int(value) if value == value.to_integral_value() else float(value)
