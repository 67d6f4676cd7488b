"""Moving through a recording, and the view of one of its steps in a terminal."""

from collections.abc import Callable, Iterable
from textwrap import dedent

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from labkit.running.recording.recording import EXCEPTION, LINE, RETURN, YIELD, Recording, Step
from labkit.running.reporting.showing import clip, in_one_line, repeatable

HELP = "← → line   ↑ ↓ call   n p feed   q quit   o opening step"
_ROWS_OF_CALLS = 6
_LINES_OF_CODE = 15
# In a terminal with fewer lines than that, these are the lines of each part.
_SMALL = 36
# A terminal with fewer columns.
_NARROW = 60
# With as many lines, the expected and the actual value have their place above the calls.
_LINES_WITH_VALUES = 24
_FEWEST_HEADING, _FEWEST_CALLS, _FEWEST_LINES = 3, 2, 5
# The most values in a window, and in print, which has no last line.
_MOST_VALUES, _MOST_PRINTED = 10, 40
# The most characters of a change in the list of steps, and those before it that are equal.
_MOST_CHANGE, _LEFT_OF_CHANGE = 70, 8
# The most steps of each waiting function that are printed before the other steps.
_MOST_OF_CALLER = 3
# The most of these functions: a recursion may have a thousand.
_MOST_CALLERS = 6


def move(recording: Recording, number: int, key: str) -> int:
    """Return the number of the step that a key leads to; an unknown key leads nowhere.

    Args:
        recording: the recording, which has steps.
        number: the step before the key.
        key: `left`, `right`, `up`, `down`, `n`, `p` or `o`.
    """
    steps = recording.steps
    here = steps[number]
    if key == "o":
        return recording.opens or 0
    leads: dict[str, tuple[Iterable[int], Callable[[Step], bool]]] = {
        "right": (range(number + 1, len(steps)), lambda step: True),
        "left": (range(number - 1, -1, -1), lambda step: True),
        "down": (range(number + 1, len(steps)), lambda step: step.frame != here.frame),
        "up": (range(number - 1, -1, -1), lambda step: step.frame != here.frame),
        "n": (range(number + 1, len(steps)), lambda step: step.call != here.call),
        "p": (range(number - 1, -1, -1), lambda step: step.call != here.call),
    }
    if key not in leads:
        return number
    places, fits = leads[key]
    place = next((place for place in places if fits(steps[place])), number)
    while key == "p" and place and steps[place - 1].call == steps[place].call:
        place -= 1
    return place


def heading(recording: Recording, most: int | None = None) -> RenderableType:
    """Return the test, its rule, and why the recording opens where it does.

    Args:
        recording: the recording.
        most: the most rows, the last of which stay; all rows but the last row are then cut to a
            line. None for all, in full.
    """
    table = _grid()
    expected, actual = recording.expected, recording.actual
    is_cut = most is not None
    if is_cut:
        start = max(0, _equal_start(expected, actual) - _LEFT_OF_CHANGE)
        if start > _LEFT_OF_CHANGE:
            expected, actual = f"…{expected[start:]}", f"…{actual[start:]}"
    rows = [
        ("rule", recording.rule),
        ("call", recording.case),
        ("made", ", ".join(recording.objects)),
        ("expected", expected),
        ("actual", actual),
        ("opens at" if recording.opens is not None else "no steps", recording.why),
    ]
    for label, text in rows[-most:] if most is not None else rows:
        if text:
            words = repeatable(in_one_line(text) if is_cut else text)
            no_wrap = is_cut and label in ("expected", "actual")
            table.add_row(label, Text(words, no_wrap=no_wrap, overflow="ellipsis"))
    title = f"lab-{recording.lab} {recording.test}: {recording.file}"
    return Group(Text(title, style="bold"), table)


def screen_of(recording: Recording, number: int, height: int) -> RenderableType:
    """Return a step as it fits a terminal of so many lines.

    In a small terminal, fewer calls and fewer lines of code are shown first; then the rule and the
    values are cut.
    """
    is_small = height < _SMALL
    rows, lines = (_FEWEST_CALLS, _FEWEST_LINES) if is_small else (_ROWS_OF_CALLS, _LINES_OF_CODE)
    shown = None if not is_small else 3 if height >= _LINES_WITH_VALUES else 1
    top = heading(recording, shown)
    most = height // 4 if shown is None else _FEWEST_HEADING + shown - 1
    where, calls, code, values = _parts(recording, number, rows, lines)
    return Fitted(
        [(top, most), (calls, rows + 1), (where, 2),
         (code, lines), (values, height), (Text(HELP, no_wrap=True, overflow="ellipsis"), 1)],
        height,
    )  # fmt: skip


class Fitted:
    """Renderables below each other, each with the most lines that it may take.

    The part before the last gets the lines that are left, and the parts before it get those that it
    does not need.
    """

    def __init__(self, parts: list[tuple[RenderableType, int]], height: int) -> None:
        self._parts = parts
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        options = options.update(height=None)
        drawn = [console.render_lines(part, options, pad=False) for part, _ in self._parts]
        sizes = [min(len(lines), most) for lines, (_, most) in zip(drawn, self._parts, strict=True)]
        left = self._height - 1 - sum(sizes)
        # In ten lines there is room for the line that runs, a value and the keys.
        for number, fewest in ((-2, 2), (0, 0), (1, 0)):
            less = max(0, min(-left, sizes[number] - fewest))
            left, sizes[number] = left + less, sizes[number] - less
        for number, lines in enumerate(drawn):
            more = min(max(0, left), len(lines) - sizes[number])
            left, sizes[number] = left - more, sizes[number] + more
        for lines, most in zip(drawn, sizes, strict=True):
            for line in _cut(lines, most):
                yield from line
                yield Segment.line()


def _cut(lines: list[list[Segment]], most: int) -> list[list[Segment]]:
    if len(lines) <= most or not most:
        return lines[:most]
    return [*lines[: most - 1], [Segment(f"… {len(lines) - most + 1} more lines")]]


def view(recording: Recording, number: int) -> RenderableType:
    """Return a step: the calls of the test, the code with the line, and the values."""
    where, calls, code, values = _parts(
        recording, number, _ROWS_OF_CALLS, _LINES_OF_CODE, _MOST_PRINTED
    )
    return Group(calls, Text(""), where, code, values)


def _parts(
    recording: Recording, number: int, rows: int, lines: int, most: int = _MOST_VALUES
) -> tuple[RenderableType, RenderableType, RenderableType, RenderableType]:
    """Return where a step is, the calls of the test, the code, and the values.

    Args:
        recording: the recording.
        number: the number of the step.
        rows: the most calls.
        lines: the most lines of code.
        most: the most values.
    """
    step = recording.steps[number]
    where = f"step {number + 1:,} of {len(recording.steps):,}"
    if recording.dropped:
        where += f" (the last of {recording.dropped + len(recording.steps):,})"
    if any(other.thread for other in recording.steps):
        where += f", thread {step.thread + 1}"
    words = f"{where}, in {step.function}{_of_part(recording, step)}: {happens(step)}"
    values = _values(recording, number, most, is_cut=lines == _FEWEST_LINES)
    if step.printed:
        printed = Text(f"printed   {clip(repeatable(in_one_line(step.printed)), 200)}")
        values = Group(printed, values)
    calls, code = _calls(recording, step, rows), _Code(recording, step, lines)
    return Text(repeatable(words), style="bold"), calls, code, values


def happens(step: Step) -> str:
    """Return the event of a step in words."""
    return {
        LINE: f"line {step.line} runs",
        RETURN: f"line {step.line} returns {step.value}",
        YIELD: f"line {step.line} yields {step.value}",
        EXCEPTION: f"line {step.line} raises {step.value}",
    }[step.event]


def print_around(console: Console, recording: Recording, before: int, after: int) -> None:
    """Print the steps around the opening step, one line each, then that step in full."""
    number = recording.opens
    if number is None:
        return
    first, end = max(0, number - before), min(len(recording.steps), number + after + 1)
    table = _grid()
    places = [*_of_callers(recording, number, first), *range(first, end)]
    for earlier, place in zip([places[0], *places], places, strict=False):
        step = recording.steps[place]
        if place - earlier > 1:
            table.add_row("  …")
        source = _source_line(recording, step).strip()
        shown = [_change(name, *pair) for name, pair in step.changes.items()]  # fmt: skip
        if step.event != LINE:
            shown = [clip(repeatable(happens(step)), 70)]
        if step.printed:
            shown.append(clip(f"printed: {repeatable(in_one_line(step.printed))}", 70))
        mark = ">" if place == number else " "
        indent = "  " * min(step.depth - 1, 6)
        table.add_row(f"{mark} {step.line}", Text(f"{indent}{clip(source, 60)}"),
                      Text("\n".join(shown)))  # fmt: skip
    console.print(table)
    console.print()
    console.print(view(recording, number))


def _of_callers(recording: Recording, number: int, end: int) -> list[int]:
    """Return the numbers of the last steps before `end` of each of the innermost functions that
    wait for the function of a step: they made its arguments.
    """
    here = recording.steps[number]
    depth = here.depth
    left: dict[int, int] = {}
    places: list[int] = []
    for place in reversed(range(number)):
        step = recording.steps[place]
        if (step.call, step.thread) != (here.call, here.thread):
            break
        if step.depth < depth:
            if len(left) == _MOST_CALLERS:
                break
            depth, left[step.frame] = step.depth, _MOST_OF_CALLER
        if place < end and left.get(step.frame, 0) > 0:
            left[step.frame] -= 1
            places.append(place)
    return places[::-1]


def _change(name: str, old: str, new: str) -> str:
    """Return a change in words of a limited length; of long values without their equal start, or,
    if they lack their middle, only the ends, if these differ.
    """
    old, new = repeatable(old or "(new)"), repeatable(new)
    equal = _equal_start(old, new) - _LEFT_OF_CHANGE
    room = _MOST_CHANGE - len(f"{name}:  → ")
    if len(old) + len(new) > room and equal >= _LEFT_OF_CHANGE:
        ends = [f"…{text[-(room // 2) + 1 :]}" for text in (old, new)]
        if "…" in new and ends[0] != ends[1]:
            return f"{name}: {' → '.join(ends)}"
        old, new = f"…{old[equal:]}", f"…{new[equal:]}"
    left = clip(old, max(room // 2, room - len(new)))
    return f"{name}: {left} → {clip(new, room - len(left))}"


def _equal_start(left: str, right: str) -> int:
    """Return how many characters at the start of two texts are equal."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def _grid() -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    return table


def _calls(recording: Recording, step: Step, rows: int) -> RenderableType:
    """Return the table of the test's calls around that of a step."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    has_expected = any(row.expected for row in recording.calls)
    columns = ["", "call", "emitted", *recording.columns, "lines"]
    for name in [*columns, *["expected"] * has_expected]:
        # The widest columns give way; a column that may not wrap would vanish.
        table.add_column(name)
    here = step.call - recording.first_call
    first = max(0, min(here - rows + 2, len(recording.calls) - rows))
    for number, row in [*enumerate(recording.calls)][first : first + rows]:
        is_over = number < here or (number == here and step is recording.steps[-1])
        held = [*row.held, *[""] * (len(recording.columns) - len(row.held))]
        done = [row.emitted, *held] if is_over or number == here else [""] * (1 + len(held))
        cells = [">" if number == here else "", row.call, *done, f"{row.lines:,}"]
        cells += [row.expected] * has_expected
        style = "bold" if number == here else ""
        texts = (repeatable(in_one_line(cell)) for cell in cells)
        table.add_row(
            *(Text(text, style=style, no_wrap=True, overflow="ellipsis") for text in texts)
        )
    return table


def _of_part(recording: Recording, step: Step) -> str:
    return f" of {recording.file_of(step).file}" if step.part else ""


def _source_line(recording: Recording, step: Step) -> str:
    source = recording.file_of(step).source
    return source[step.line - 1] if 0 < step.line <= len(source) else ""


class _Code:
    """The lines of code around that of a step; in a narrow terminal without the indentation that
    all of them have.
    """

    def __init__(self, recording: Recording, step: Step, count: int) -> None:
        self._file = recording.file_of(step)
        self._line = step.line
        self._count = count

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        table, file = _grid(), self._file
        first = max(1, min(self._line - self._count // 2, len(file.source) - self._count + 1))
        shown = [repeatable(line) for line in file.source[first - 1 : first - 1 + self._count]]
        if shown and options.max_width < _NARROW:
            shown = dedent("\n".join(shown)).split("\n")
        for line, source in enumerate(shown, first):
            is_here = line == self._line
            mark = f"{'>' if is_here else ' '} {line:4}"
            runs = f"{file.counts[line]:,}x" if line in file.counts else ""
            text = Text(source, style="reverse" if is_here else "", no_wrap=True,
                        overflow="ellipsis")  # fmt: skip
            table.add_row(mark, runs, text)
        yield table


def _values(recording: Recording, number: int, most: int, *, is_cut: bool) -> RenderableType:
    """Return the values before the line, with those after it if they change.

    Args:
        recording: the recording.
        number: the number of the step.
        most: the most values.
        is_cut: whether a value takes a single line.
    """
    step = recording.steps[number]
    values = recording.values_at(number)
    names = [*step.changes, *(name for name in values if name not in step.changes)]
    table = _grid()
    for name in names[:most]:
        old, new = step.changes.get(name, (values.get(name, ""), ""))
        text = Text(repeatable(old or "(new)"), no_wrap=is_cut, overflow="ellipsis")
        if new:
            text.append(" → ").append(repeatable(new), style="bold")
        table.add_row(escape(name), text)
    if len(names) > most:
        left = len(names) - most
        table.add_row("", f"… {left} more value{'s' * (left != 1)}")
    return table
