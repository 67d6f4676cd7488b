"""Grades as a gradebook: CSV with the columns that nbgrader exports.

But: it knows no names, dates or late work; those columns are empty, and the penalty is 0.
"""

import csv
import io
from collections.abc import Sequence
from typing import Any

COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)
# A spreadsheet takes a cell that begins so for a formula, and students choose names of files.
_FORMULA = tuple("=+-@\t\r")


def report_csv(grades: Sequence[dict[str, Any]]) -> str:
    """Return grades, as `Grade.as_dict` has them, as CSV, one row each."""
    out = io.StringIO()
    rows = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    rows.writeheader()
    for grade in grades:
        student = grade["student"]
        rows.writerow(
            {
                "assignment": grade["lab"],
                "student_id": f"'{student}" if student.startswith(_FORMULA) else student,
                "raw_score": grade["score"],
                "late_submission_penalty": 0,
                "score": grade["score"],
                "max_score": grade["max_score"],
            }
        )
    return out.getvalue()
