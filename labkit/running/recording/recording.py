"""A recording: the steps of a failing case, as data and as JSON.

`recording.schema.json` is the schema of the JSON, and describes each key.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

VERSION = 1
LINE, RETURN, YIELD, EXCEPTION = "line", "return", "yield", "exception"


@dataclass(slots=True)
class Step:
    """A line that ran, a function that returned or yielded, or an exception in a function.

    Attributes:
        line: the line's number.
        event: LINE, RETURN, YIELD or EXCEPTION.
        function: the name of the function.
        frame: the number of the call of the function, the same for all its steps.
        depth: how many functions of the file are running, from 1.
        thread: the number of the thread, from 0.
        call: the number of the test's call, from 0; -1 while the objects are made.
        changes: the values that changed while the line ran, by name: before, "" for a new name,
            and after.
        values: in the first step of a frame, all values before the line, by name.
        value: the returned or yielded value, or the exception.
        printed: the output of the code while the line ran.
        part: the number of the file that has the line: 0 for the file under test, n for the nth of
            the recording's `parts`.
    """

    line: int
    event: str
    function: str
    frame: int
    depth: int
    thread: int
    call: int
    changes: dict[str, tuple[str, str]] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    value: str = ""
    printed: str = ""
    part: int = 0


@dataclass(slots=True)
class CallRow:
    """A call of the test.

    Attributes:
        call: the call in words, as the report writes it; after `#2 ` for the second object, if
            several objects have calls.
        emitted: its result, "" if it did not end.
        held: the held text after it, by layer if there are several.
        expected: the expected result, or the expected held text; "" if the test does not compare
            the calls one by one.
        lines: how many lines of the file ran during it.
    """

    call: str
    emitted: str = ""
    held: tuple[str, ...] = ()
    expected: str = ""
    lines: int = 0


@dataclass(slots=True)
class Part:
    """Another file of the student whose lines are recorded: a part of a composed lab.

    Attributes:
        file: its name, with the folder of its lab.
        source: its lines.
        counts: how often each line ran, by number; for the whole case.
    """

    file: str = ""
    source: list[str] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Recording:
    """The steps of one failing case.

    Attributes:
        kind: `exception`, `difference`, `loop`, `cost`, `race`, `waiting` or `nothing`.
        why: the reason why the recording opens at that step, or why there is nothing to show.
        opens: the number of the step to begin with; None if there are no steps.
        lab, test, rule, file: the lab's number, the test, its rule, and the file under test by
            name.
        source: the lines of the file.
        expected, actual, case: as in the report, "" if there are none; `case` is its line `call`.
        objects: the objects that the test made, in words.
        columns: the names of the columns of held text.
        first_call: the number of the first call in `calls`.
        calls: the calls of the case, up to the one that went wrong.
        dropped: the number of steps before the first recorded step.
        steps: the last steps of the case.
        counts: how often each line ran, by number; for the whole case.
        marks: the numbers of other steps to look at: where another thread waits, for example.
        parts: the student's other files, if the case ran any of their lines.
    """

    kind: str
    why: str
    opens: int | None = None
    lab: str = ""
    test: str = ""
    rule: str = ""
    file: str = ""
    source: list[str] = field(default_factory=list)
    expected: str = ""
    actual: str = ""
    case: str = ""
    objects: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    first_call: int = 0
    calls: list[CallRow] = field(default_factory=list)
    dropped: int = 0
    steps: list[Step] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    marks: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the recording as JSON's types, without the keys of steps that are empty."""
        data = {"version": VERSION, **asdict(self)}
        for counted in (data, *data["parts"]):
            counted["counts"] = {str(n): count for n, count in sorted(counted["counts"].items())}
        data["steps"] = [
            {key: value for key, value in asdict(step).items()
             if value not in ("", {}) and (key, value) != ("part", 0)}
            for step in self.steps
        ]  # fmt: skip
        return data

    def take_sources(self, sources: Sequence[tuple[str, bytes]]) -> None:
        """Add the names and the lines of the file under test and of the parts, in this order."""
        files: list[Part | Recording] = [self, *self.parts]
        for file, (name, data) in zip(files, sources, strict=True):
            file.file = name
            if file is self or file.counts:
                file.source = data.decode("utf-8", "replace").splitlines()

    def around(self, count: int) -> "Recording":
        """Return the recording with at most so many steps, those around the opening step."""
        if len(self.steps) <= count:
            return self
        opens = self.opens or 0
        first = min(max(0, opens - count * 3 // 4), len(self.steps) - count)
        steps = self.steps[first : first + count]
        frames: set[int] = set()
        for number, step in enumerate(steps):
            if step.frame not in frames:
                frames.add(step.frame)
                steps[number] = replace(step, values=self.values_at(first + number))
        marks = [mark - first for mark in self.marks if first <= mark < first + count]
        return replace(
            self, steps=steps, opens=opens - first, marks=marks, dropped=self.dropped + first
        )

    def file_of(self, step: Step) -> "Part | Recording":
        """Return the file that has the line of a step: its `file`, `source` and `counts`."""
        return self.parts[step.part - 1] if step.part else self

    def values_at(self, number: int) -> dict[str, str]:
        """Return the values of a step's function before its line ran, by name."""
        frame = self.steps[number].frame
        values: dict[str, str] = {}
        for step in self.steps[:number]:
            if step.frame == frame:
                values.update(step.values)
                values.update((name, after) for name, (_, after) in step.changes.items())
        return {**values, **self.steps[number].values}
