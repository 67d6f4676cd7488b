"""A test as every report shows it, and its failure in words: rule, call, expected, actual, trace.

A `GradedTest` holds all that a report may say, so the terminal, files and platforms agree, whether
the test ran in this process or in front of a pipe.
"""

import textwrap
from dataclasses import dataclass, replace

from labkit.course.manifest import Test
from labkit.running.reporting.showing import repeatable
from labkit.running.reporting.trace_table import trace_rows
from labkit.running.score import LabRun, Result
from labkit.running.trace import Failure

WIDTH = 88
VISIBLE = "visible"
# Of what was printed, and of an exception's text.
_MOST_LINES = 6
_LABEL = 10


@dataclass(frozen=True, slots=True)
class GradedTest:
    """What became of one test.

    Attributes:
        name, rule, task: as the lab's list of tests has them.
        kind: that of its `Result`; `not-run` if it has none.
        message: its failure in short; empty if it passed or did not run.
        detail: its failure in full; empty if it passed or did not run.
        for_student: its failure in full as its student may read it, without what a secret seed
            drew; empty if it passed or did not run.
        max_score: the points it is worth.
        visibility: who may see it and when; other than `visible` only for hidden tests.
    """

    name: str
    rule: str
    task: int | None
    kind: str
    message: str
    detail: str
    for_student: str
    max_score: int
    visibility: str = VISIBLE

    @property
    def passed(self) -> bool:
        """Whether it ran and passed."""
        return self.kind == "passed"

    @property
    def ran(self) -> bool:
        """Whether anything became of it."""
        return self.passed or bool(self.message)

    @property
    def score(self) -> int:
        """The points it earned: all of them or none."""
        return self.max_score if self.passed else 0


def graded_test(test: Test, result: Result | None, visibility: str = VISIBLE) -> GradedTest:
    """Return what became of a test whose result is `result`, or None if it did not run."""
    detail = "" if result is None or result.passed else explain(test, result)
    return GradedTest(
        name=test.name,
        rule=test.rule,
        task=test.task,
        kind="not-run" if result is None else result.kind,
        message="" if result is None else result.message,
        detail=detail,
        for_student=detail,
        max_score=test.points,
        visibility=visibility,
    )


def graded_tests(run: LabRun) -> list[GradedTest]:
    """Return what became of every test of a lab, in the order of the file."""
    return [graded_test(test, run.results.get(test.name)) for test in run.lab.tests]


def explain(test: Test, result: Result) -> str:
    """Return one failure in full: the rule, the call, expected and actual, the trace, prints."""
    lines = _labelled("rule", test.rule)
    if result.failure is not None or result.told:
        lines.append(in_words(result).told)
    else:
        lines += _labelled("but", result.message)
    if result.printed.strip():
        lines += _labelled("printed", result.printed.rstrip(), _MOST_LINES)
    return "\n".join(lines)


def in_words(result: Result) -> Result:
    """Return a result without its failure as data, which may be large, but with it in words."""
    if result.failure is None:
        return result
    return replace(result, failure=None, told="\n".join(_told(result.failure)))


def _told(failure: Failure) -> list[str]:
    trace, raised = failure.trace, failure.raised
    lines = []
    if raised is not None:
        lines += _labelled("call", raised.call) if raised.call else []
        lines += _labelled("raised", f"{raised.kind}: {raised.message}", _MOST_LINES)
        lines += _labelled("at", raised.line) if raised.line else []
        if failure.expected != "no exception":
            lines += _labelled("expected", failure.expected)
    else:
        made = ", ".join(map(str, trace.new)) if trace is not None else ""
        lines += _labelled("made", made) if made and not failure.call else []
        lines += _labelled("call", failure.call) if failure.call else []
        if failure.actual == failure.reason:
            lines += _labelled("but", failure.reason)
        else:
            lines += _labelled("expected", failure.expected) + _labelled("actual", failure.actual)
        if failure.reason and not _is_told(failure):
            lines += _labelled("in short", failure.reason)
    if trace is not None and trace.steps and failure.actual != failure.reason:
        lines += trace_rows(trace, failure.at, _LABEL)
    if failure.shrunk:
        lines.append(" " * _LABEL + "(smallest case found)")
    return lines


def _is_told(failure: Failure) -> bool:
    return failure.expected in failure.reason or failure.reason == failure.actual


def _labelled(label: str, text: str, most: int = 12) -> list[str]:
    lines: list[str] = []
    width = WIDTH - _LABEL - 4
    for line in repeatable(text).splitlines()[: most + 1] or [""]:
        # To wrap a line can take a time that grows with its square.
        wrapped = textwrap.wrap(line[: (most + 1) * width], width, break_long_words=True)
        lines += wrapped or [""]
    if len(lines) > most:
        lines[most:] = [f"… ({len(text)} characters in all)"]
    return [f"{label if not i else '':<{_LABEL}}{line}" for i, line in enumerate(lines)]
