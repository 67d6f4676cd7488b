"""The grader's own failures: no fault of a submission, and none of the command line's."""

from labkit.errors import LabkitError


class InfrastructureError(LabkitError):
    """Grading cannot go on: a sandbox, a disk or a machine fails. What is done stays done."""
