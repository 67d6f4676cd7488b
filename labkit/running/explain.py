"""A test as every report shows it, and its failure in words: rule, call, expected, actual, trace.

A `GradedTest` holds all that a report may say, so the terminal, files and platforms agree, whether
the test ran in this process or in front of a pipe.
"""

import textwrap
from dataclasses import dataclass

from labkit.course.manifest import Test
from labkit.running.score import LabRun, Result
from labkit.running.trace import Step, Trace

WIDTH = 88
VISIBLE = "visible"
_ROWS = 12


@dataclass(frozen=True, slots=True)
class GradedTest:
    """What became of one test.

    Attributes:
        name, rule, task: as the lab's list of tests has them.
        kind: that of its `Result`; `not-run` if it has none.
        message: its failure in short; empty if it passed or did not run.
        detail: its failure in full; empty if it passed or did not run.
        max_score: the points it is worth.
        visibility: who may see it and when; other than `visible` only for hidden tests.
    """

    name: str
    rule: str
    task: int | None
    kind: str
    message: str
    detail: str
    max_score: int
    visibility: str = VISIBLE

    @property
    def passed(self) -> bool:
        """Whether it ran and passed."""
        return self.kind == "passed"

    @property
    def score(self) -> int:
        """The points it earned: all of them or none."""
        return self.max_score if self.passed else 0


def graded_test(test: Test, result: Result | None, visibility: str = VISIBLE) -> GradedTest:
    """Return what became of a test whose result is `result`, or None if it did not run."""
    return GradedTest(
        name=test.name,
        rule=test.rule,
        task=test.task,
        kind="not-run" if result is None else result.kind,
        message="" if result is None else result.message,
        detail="" if result is None or result.passed else explain(test, result),
        max_score=test.points,
        visibility=visibility,
    )


def graded_tests(run: LabRun) -> list[GradedTest]:
    """Return what became of every test of a lab, in the order of the file."""
    return [graded_test(test, run.results.get(test.name)) for test in run.lab.tests]


def explain(test: Test, result: Result) -> str:
    """Return one failure in full: the rule, the call, expected and actual, the trace."""
    lines = _labelled("rule", test.rule)
    failure = result.failure
    if failure is None:
        return "\n".join(lines + _labelled("but", result.message))
    if failure.raised is not None:
        said = f"{failure.raised.call or 'the call'} raised {failure.raised}"
        return "\n".join(
            lines + _labelled("expected", failure.expected) + _labelled("actual", said)
        )
    if call := failure.call or _calls(failure.trace):
        lines += _labelled("call", call)
    lines += _labelled("expected", failure.expected) + _labelled("actual", failure.actual)
    if failure.trace is not None and failure.trace.steps:
        lines += _trace_rows(failure.trace)
    return "\n".join(lines)


def _labelled(label: str, text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        lines += textwrap.wrap(line, WIDTH - 14, break_long_words=True) or [""]
    return [f"{label if not i else '':<10}{line}" for i, line in enumerate(lines)]


def _calls(trace: Trace | None) -> str:
    if trace is None:
        return ""
    words = [*map(str, trace.new), *(str(step.call) for step in trace.steps)]
    if len(words) > 6:
        words = [*words[:4], f"… {len(words) - 5} more …", words[-1]]
    return "; ".join(words)


def _trace_rows(trace: Trace) -> list[str]:
    steps: list[Step | None] = list(trace.steps)
    if len(steps) > _ROWS:
        steps = [*steps[: _ROWS - 3], None, *steps[-2:]]
    rows = [("trace", "call", "emitted", "held")]
    for step in steps:
        if step is None:
            rows.append(("", "…", "", ""))
        else:
            held = "" if step.held is None else repr(step.held)
            rows.append(("", str(step.call), repr(step.result), held))
    widths = [min(max(len(row[i]) for row in rows), 30) for i in (1, 2)]
    return [
        f"{a:<10}{_clip(b, 30):<{widths[0]}}  {_clip(c, 30):<{widths[1]}}  {_clip(d, 20)}".rstrip()
        for a, b, c, d in rows
    ]


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
