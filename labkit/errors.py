"""Errors whose message is written for the person who can fix them."""


class LabkitError(Exception):
    """Base of all errors that labkit raises on purpose."""


class LabFolderError(LabkitError):
    """A file of a lab is missing or malformed; the message names the file and the fix."""


class InfrastructureError(LabkitError):
    """Grading cannot continue: a sandbox, a disk or a machine failed. Recorded grades are kept."""


class CourseError(InfrastructureError):
    """A file of the course is at fault, such as a part that cannot be imported.

    No submission caused the error, and none can be graded until the file is fixed.
    """


class UsageError(LabkitError):
    """A command or an environment variable holds a value that is not allowed."""


class LoadFailure(LabkitError):
    """The implementation under test could not be imported; the message is for its author.

    Attributes:
        line: the number of the faulty line of its file, if there is one.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
