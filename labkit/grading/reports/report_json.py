"""Grades as one JSON document; `schemas/report.schema.json` describes it."""

import json
from collections.abc import Sequence
from typing import Any

SCHEMA = "labkit/report/v1"


def report_json(grades: Sequence[dict[str, Any]]) -> str:
    """Return grades, as `Grade.as_dict` has them, as JSON in ASCII."""
    return json.dumps({"schema": SCHEMA, "grades": list(grades)}, indent=1) + "\n"
