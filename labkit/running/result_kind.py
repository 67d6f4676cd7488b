"""The kinds of a result of a lab's test, and their consequences for the student.

Only `PASSED` earns the points of a test; every other kind earns none of them.
"""

from enum import StrEnum


class ResultKind(StrEnum):
    """The outcome of one test. The value is the word that JSON, JUnit and ledgers use.

    Attributes:
        PASSED: the rule holds. The test earns its points.
        ASSERTION: the code runs and breaks the rule. The student reads the expected and the
            returned value.
        RAISED: the code under test raised an exception, or the process that held it ended or broke
            the protocol. The student reads the exception, and the line of their file.
        TIMEOUT: the code did not end within the time limit of the test. The student reads at which
            line it was. After a few of these, other tests of the task or the lab are not run.
        UNWRITTEN: the test needs a function that still raises `NotImplementedError`. The student
            reads which task it belongs to; nothing is wrong yet.
        LOAD: the file of the student cannot be imported, so no test can run. The student reads the
            error once.
        NOT_RUN: the test was not run, because nothing could be graded or because other tests ran
            into the time limit. The student reads why.
        TEST_ERROR: the test ended otherwise than by a broken rule. Either the test has a mistake,
            or it did not expect a value of the code; grading the reference shows which.
    """

    PASSED = "passed"
    ASSERTION = "assertion"
    RAISED = "raised"
    TIMEOUT = "timeout"
    UNWRITTEN = "unwritten"
    LOAD = "load"
    NOT_RUN = "not-run"
    TEST_ERROR = "test-error"

    @property
    def is_waiting(self) -> bool:
        """Whether the test waits for the student: it has not judged any of their code.

        Many tests wait for one reason, so reports show the reason once and nothing of each test.
        """
        return self in (ResultKind.UNWRITTEN, ResultKind.LOAD, ResultKind.NOT_RUN)

    @property
    def is_wrong(self) -> bool:
        """Whether the code under test ran and broke the rule."""
        return self in (ResultKind.ASSERTION, ResultKind.RAISED, ResultKind.TIMEOUT)

    @property
    def quotes_case(self) -> bool:
        """Whether the texts of the result may quote the case, which a secret seed may have drawn.

        The code under test chooses its own messages, so those of `UNWRITTEN` and `LOAD` may too.
        """
        return self not in (ResultKind.PASSED, ResultKind.TIMEOUT, ResultKind.NOT_RUN)
