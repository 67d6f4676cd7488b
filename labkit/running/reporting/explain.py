"""A test as every report shows it, and its failure in words: rule, call, expected, actual, trace.

A `GradedTest` holds everything that a report may print, so the terminal, files and platforms agree,
whether the code under test ran in this process or in another.
"""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from labkit.course.hunt import PoolTest
from labkit.course.manifest import Test
from labkit.running.reporting.showing import clip, first_difference, in_one_line, repeatable
from labkit.running.reporting.trace_table import TraceTable, calls_of, drawn, trace_table
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun, Result
from labkit.running.trace import MOST_IN_FULL, Failure, Trace

WIDTH = 88
VISIBLE = "visible"
# The first label: the rule of a test, or the goal of a hunter's tests.
RULE, GOAL = "rule", "goal"
# The label of an input that is shortened above it.
IN_FULL = "in full"
# The most lines of printed output, and of an exception's text.
_MOST_LINES = 6
# The most inputs in full.
_MOST_IN_FULL = 3
_LABEL = 10
# The most characters of each of two values in one line, and of those before their difference.
_IN_BRIEF = 34
_BEFORE_BRIEF = 12


class Label(NamedTuple):
    """A part of an explanation: its label, its unwrapped text, and the most lines to show."""

    label: str
    text: str
    most: int = 12


@dataclass(frozen=True, slots=True)
class Explanation:
    """A failure in full, as data.

    Attributes:
        labels: the rule, the call, the expected value, and so on, in order.
        trace: the run, if it helps.
        shrunk: whether the case was made smaller than the first failing case.
        after: labels after the trace: inputs that are shortened above, and the printed output.
        text: lines instead of labels and trace, for a failure that is known only in words.
    """

    labels: tuple[Label, ...]
    trace: TraceTable | None = None
    shrunk: bool = False
    after: tuple[Label, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class GradedTest:
    """The outcome of one test.

    Attributes:
        name, rule, task: as in the lab's list of tests.
        kind: the kind of its `Result`; `NOT_RUN` without a result.
        message: its failure in short; empty if it passed or did not run.
        detail: its failure in full; empty if it passed or did not run.
        for_student: its failure in full as its student may read it, without what a secret seed
            drew; empty if it passed or did not run.
        max_score: the points of the test.
        visibility: who may see it and when; other than `visible` only for hidden tests.
    """

    name: str
    rule: str
    task: int | None
    kind: ResultKind
    message: str
    detail: str
    for_student: str
    max_score: int
    visibility: str = VISIBLE

    @property
    def passed(self) -> bool:
        """Whether it ran and passed."""
        return self.kind is ResultKind.PASSED

    @property
    def ran(self) -> bool:
        """Whether it has a result."""
        return self.passed or bool(self.message)

    @property
    def score(self) -> int:
        """The points it earned: all of them or none."""
        return self.max_score if self.passed else 0


def graded_test(test: Test, result: Result | None, visibility: str = VISIBLE) -> GradedTest:
    """Return the outcome of a test whose result is `result`, or None if the test did not run."""
    detail = "" if result is None or result.passed else explain(test, result)
    return GradedTest(
        name=test.name,
        rule=test.rule,
        task=test.task,
        kind=ResultKind.NOT_RUN if result is None else result.kind,
        message="" if result is None else result.message,
        detail=detail,
        for_student=detail,
        max_score=test.points,
        visibility=visibility,
    )


def graded_tests(run: LabRun) -> list[GradedTest]:
    """Return the outcome of every test of a lab, in the order of the file."""
    return [graded_test(test, run.results.get(test.name)) for test in run.tests]


def explain(test: Test, result: Result) -> str:
    """Return one failure in full: the rule, the call, expected and actual, the trace, output."""
    return "\n".join(_drawn(explanation(test, result)))


def explanation(test: Test, result: Result) -> Explanation:
    """Return one failure in full as data, which `explain` draws."""
    in_hunt = isinstance(test, PoolTest)
    rule, printed = (
        Label(GOAL if in_hunt else RULE, test.rule),
        Label("printed", result.printed.rstrip(), _MOST_LINES),
    )
    after = (printed,) if printed.text else ()
    if result.failure is not None:
        details = _of_failure(result.failure)
        return replace(details, labels=(rule, *details.labels), after=(*details.after, *after))
    if result.failure_text:
        return Explanation((rule,), after=after, text=result.failure_text)
    return Explanation((rule, Label("now" if in_hunt else "but", result.message)), after=after)


def in_brief(result: Result) -> str:
    """Return a failure in one line: two values are shown from their first difference on."""
    failure = result.failure
    if failure is None or failure.reason or failure.raised or failure.expected == "True":
        message = repeatable(result.message).replace("\nline ", ", at line ")
        return " ".join(message.split())
    texts = [in_one_line(repeatable(text)) for text in (failure.expected, failure.actual)]
    start = 0
    if max(map(len, texts)) > _IN_BRIEF:
        at = first_difference(*texts)
        start = max(0, at - _BEFORE_BRIEF)
        # Begin with a whole word, if there is one.
        start = texts[0].find(" ", start, at) + 1 or start if start else 0
    expected, actual = (clip(f"…{text[start:]}" if start else text, _IN_BRIEF) for text in texts)
    return f"expected {expected}, got {actual}"


def in_words(result: Result) -> Result:
    """Return a result whose failure, which may be large as data, is kept only in words."""
    if result.failure is None:
        return result
    return replace(result, failure=None, failure_text="\n".join(_lines(result.failure)))


def _lines(failure: Failure) -> list[str]:
    """Return the lines of a failure between its rule and the printed output."""
    return _drawn(_of_failure(failure))


def _of_failure(failure: Failure) -> Explanation:
    """Return a failure without its rule and the printed output."""
    labels, table = tuple(_labels(failure)), _trace(failure)
    after = () if failure.trace is None else tuple(_in_full(failure, failure.trace, labels, table))
    return Explanation(labels, table, failure.shrunk, after)


def _in_full(
    failure: Failure, trace: Trace, labels: Iterable[Label], table: TraceTable | None
) -> Iterator[Label]:
    """Yield the last inputs that labels and table shorten, as Python writes them."""
    full = [new.render(most=MOST_IN_FULL) for new in trace.new]
    codes = [code for new, code in zip(trace.new, full, strict=True) if code != str(new)]
    rows = [] if table is None else drawn(table, _LABEL)
    as_bytes = not any(new.has_vocabulary for new in trace.new)
    for call in calls_of(trace, failure.at):
        words = call.render(as_bytes=as_bytes, most=MOST_IN_FULL)
        in_label = words != str(call) and any(str(call) in label.text for label in labels)
        if in_label or (rows and not any(words in row for row in rows)):
            codes.append(call.render(as_bytes=False, most=MOST_IN_FULL))
    yield from (Label(IN_FULL, code) for code in codes[-_MOST_IN_FULL:])


def _labels(failure: Failure) -> Iterator[Label]:
    trace, raised = failure.trace, failure.raised
    if raised is not None:
        if raised.call:
            yield Label("call", raised.call)
        yield Label("raised", f"{raised.kind}: {raised.message}", _MOST_LINES)
        if raised.line:
            yield Label("at", raised.line)
        if failure.expected != "no exception":
            yield Label("expected", failure.expected)
        return
    made = ", ".join(map(str, trace.new)) if trace is not None else ""
    if made and not failure.call:
        yield Label("made", made)
    if failure.call:
        yield Label("call", failure.call)
    if failure.actual == failure.reason:
        yield Label("but", failure.reason)
    else:
        yield Label("expected", failure.expected)
        yield Label("actual", failure.actual)
    if failure.reason and not _is_redundant(failure):
        yield Label("in short", failure.reason)


def _trace(failure: Failure) -> TraceTable | None:
    """Return the table of the run if it adds something to the labels."""
    trace = failure.trace
    if trace is None or not trace.steps or failure.actual == failure.reason:
        return None
    return trace_table(trace, failure.at)


def _is_redundant(failure: Failure) -> bool:
    """Return whether the reason of a failure only repeats the labels before it."""
    return failure.expected in failure.reason or failure.reason == failure.actual


def _drawn(details: Explanation) -> list[str]:
    """Return an explanation as the lines that a terminal shows."""
    lines = [line for label in details.labels for line in _labelled(label)]
    if details.text:
        lines.append(details.text)
    if details.trace is not None:
        lines += drawn(details.trace, _LABEL)
    if details.shrunk:
        lines.append(" " * _LABEL + "(smallest case found)")
    return lines + [line for label in details.after for line in _labelled(label)]


def _labelled(label: Label) -> list[str]:
    most, text = label.most, label.text
    lines: list[str] = []
    width = WIDTH - _LABEL - 4
    for line in repeatable(text).splitlines()[: most + 1] or [""]:
        # The time to wrap a line can grow with the square of its length.
        shown = line[: (most + 1) * width]
        if label.label == IN_FULL:
            # Every space counts.
            wrapped = [shown[start : start + width] for start in range(0, len(shown), width)]
        else:
            wrapped = textwrap.wrap(shown, width, break_long_words=True)
        lines += wrapped or [""]
    if len(lines) > most:
        lines[most:] = [f"… ({len(text)} characters in all)"]
    return [f"{label.label if not i else '':<{_LABEL}}{line}" for i, line in enumerate(lines)]
