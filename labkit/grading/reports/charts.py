"""Charts of a cohort as SVG, drawn with shapes and classes only; the page's style colours them.

A table beside each chart has the same data.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from markupsafe import Markup, escape

from labkit.grading.grade import Grade
from labkit.grading.reports.statistics import BINS, Histogram, Statistics
from labkit.running.result_kind import ResultKind

# The result of a test, in words.
KINDS = {
    ResultKind.PASSED: "passed",
    ResultKind.ASSERTION: "broke the rule",
    ResultKind.RAISED: "raised an error",
    ResultKind.TIMEOUT: "ran out of time",
    ResultKind.UNWRITTEN: "not written yet",
    ResultKind.LOAD: "could not be imported",
    ResultKind.NOT_RUN: "did not run",
    ResultKind.TEST_ERROR: "error in the test",
}
# The same in fewer colours, which also differ in grey: the kinds by class. The words of a colour
# are those of its first kind.
SHADES = {
    "pass": (ResultKind.PASSED,),
    "rule": (ResultKind.ASSERTION, ResultKind.TEST_ERROR),
    "raised": (ResultKind.RAISED,),
    "time": (ResultKind.TIMEOUT,),
    "todo": (ResultKind.UNWRITTEN,),
    "none": (ResultKind.NOT_RUN, ResultKind.LOAD),
}
_MOST_ROWS = 1_500
_WIDTH, _HEIGHT = 400, 200
_NUDGES = sorted(
    ((dx, dy) for dx in range(-95, 96, 19) for dy in range(-95, 96, 19)),
    key=lambda step: (hypot(*step), step),
)


@dataclass(frozen=True)
class HeatMap:
    """A drawing of submissions (rows) by tests (columns), with the sizes that locate a pointer.

    Attributes:
        svg: the drawing.
        stride: only every `stride`-th submission is drawn; more than 1 for very many submissions.
        cell, tall: width of a column and height of a row.
    """

    svg: Markup
    stride: int
    cell: int
    tall: int


def histogram(
    bars: Histogram, before: Histogram | None = None, *, width: int = 400, height: int = 150
) -> Markup:
    """Return scores as bars, one per tenth; the outlines, if any, are those of another histogram.

    Args:
        bars: the scores.
        before: earlier scores of the same students.
        width, height: the size of the area for the bars; a narrow chart has only the first and the
            last number below them.
    """
    step = width / BINS
    earlier = before.counts if before is not None else (0,) * BINS
    most = max([*bars.counts, *earlier, 1])
    parts = []
    for number, (count, old) in enumerate(zip(bars.counts, earlier, strict=True)):
        tall = round(count / most * height, 1)
        x, y = number * step, 16 + height - tall
        low, high = (bars.max_score * edge // BINS for edge in (number, number + 1))
        title = f"{count} from {low} to {high}" + (f", before {old}" if before is not None else "")
        place = f'x="{x + 2:g}" y="{y:g}" width="{step - 4:g}" height="{tall:g}"'
        parts.append(f'<rect class="bar" {place}><title>{title}</title></rect>')
        if old:
            rise = round(old / most * height, 1)
            outline = f"M{x + 1:g} {16 + height}v{-rise:g}h{step - 2:g}v{rise:g}"
            parts.append(f'<path class="before" d="{outline}"/>')
        if count:
            parts.append(_text(x + step / 2, y - 4, str(count), "value"))
        if number == 0 or width >= _WIDTH:
            parts.append(_text(x, 16 + height + 14, str(low), "tick"))
    parts.append(_text(width, 16 + height + 14, str(bars.max_score), "tick"))
    parts.append(f'<path class="axis" d="M0 {16 + height}h{width}"/>')
    return _svg(width, 16 + height + 20, "How many scores are in each tenth", parts, margin=12)


def share_bar(share: float, *, width: int = 120, height: int = 12) -> Markup:
    """Return a share from 0 to 1 as a bar, which is full at 1."""
    parts = [
        f'<rect class="empty" x="0" y="0" width="{width}" height="{height}"/>',
        f'<rect class="bar" x="0" y="0" width="{round(share * width, 1):g}" height="{height}"/>',
    ]
    box, size = f"0 0 {width} {height}", f'width="{width}" height="{height}"'
    head = f'<svg class="share" viewBox="{box}" {size} role="img">'
    return Markup(f"{head}<title>{share:.0%}</title>{''.join(parts)}</svg>")


def scatter(numbers: Statistics) -> Markup:
    """Return the tests as points: easy tests to the right, discriminating tests at the top."""
    width, height = _WIDTH, _HEIGHT
    parts: list[str] = []
    placed: list[tuple[float, float]] = []
    for level in (-0.5, 0, 0.5, 1):
        y = _across(level, height)
        parts += [
            f'<path class="grid" d="M0 {y:g}h{width}"/>',
            _text(-6, y + 3, f"{level:g}", "end"),
        ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(_text(share * width, height + 16, f"{share:.0%}", "tick"))
    for number, item in enumerate(numbers.items, start=1):
        if item.discrimination is None or not item.points:
            continue
        x, y = _beside(item.difficulty * width, _across(item.discrimination, height), placed)
        placed.append((x, y))
        words = f"{number} {item.name}: {item.difficulty:.0%} passed, {item.discrimination:+.2f}"
        parts.append(
            f'<g class="point"><title>{escape(words)}</title><circle cx="{x:g}" cy="{y:g}" r="9"/>'
            f"{_text(x, y + 3.5, str(number), 'mark')}</g>"
        )
    return _svg(width, height + 22, "Tests by difficulty and discrimination", parts, margin=34)


def heat_map(order: Sequence[Grade]) -> HeatMap:
    """Return the map of submissions, in this order, by tests."""
    stride = -(-len(order) // _MOST_ROWS)
    rows = order[::stride] if stride else []
    columns = len(order[0].tests)
    cell = 18
    tall = 12 if len(rows) <= 60 else max(1, 720 // len(rows))
    shade = {kind: name for name, kinds in SHADES.items() for kind in kinds}
    paths: dict[str, list[str]] = defaultdict(list)
    gap = 1 if tall > 4 else 0
    for row, grade in enumerate(rows):
        for column, test in enumerate(grade.tests):
            paths[shade[test.kind]].append(
                f"M{column * cell} {row * tall}h{cell - 1}v{tall - gap}h{1 - cell}z"
            )
    parts = [f'<path class="{name}" d="{"".join(paths[name])}"/>' for name in SHADES
             if name in paths]  # fmt: skip
    numbers = [_text((i + 0.5) * cell, -5, str(i + 1), "tick") for i in range(columns)]
    title = "The result of each test (columns) of each submission (rows, the best first)"
    drawing = _svg(columns * cell, len(rows) * tall, title, [*parts, *numbers], margin=14)
    return HeatMap(drawing, stride, cell, tall)


def _beside(x: float, y: float, placed: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the nearest place to the right, left, top or bottom that covers no other point."""
    for dx, dy in _NUDGES:
        there = round(x + dx, 1), round(y + dy, 1)
        free = all(abs(there[0] - a) > 18 or abs(there[1] - b) > 18 for a, b in placed)
        if free and 0 <= there[0] <= _WIDTH and 0 <= there[1] <= _HEIGHT:
            return there
    return x, y


def _across(value: float, height: int) -> float:
    """Return the y of a discrimination; the axis goes from -0.5 to 1."""
    return round((1 - max(value, -0.5)) / 1.5 * height, 1)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _svg(width: int, height: int, title: str, parts: Sequence[str], *, margin: int) -> Markup:
    wide, high = width + 2 * margin, height + 28
    box, size = f"{-margin} -14 {wide} {high}", f'width="{wide}" height="{high}"'
    head = f'<svg viewBox="{box}" {size} role="img"><title>{escape(title)}</title>'
    return Markup(head + "".join(parts) + "</svg>")
