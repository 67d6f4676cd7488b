"""A run as a table of calls, emitted text and held text, around the step that went wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from labkit.running.reporting.showing import clip, in_one_line, repeatable
from labkit.running.trace import EVENTS, Call, Step, Trace, Unreadable, written
from mini_vllm.text.events import TextDelta, ToolCall

# The size of the table, in rows and in columns of the terminal.
_ROWS = 12
_ROOM = 76
_BEFORE = 7
# The most characters of a cell before it is made to fit, and the most columns of held text.
_MOST = 200
_MOST_LAYERS = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        cells: one for each column; a gap has only its text, `… 5 more …`.
        marked: whether this step is the one that went wrong.
        is_gap: whether it replaces steps that are left out.
    """

    cells: tuple[str, ...]
    marked: bool = False
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class TraceTable:
    """A run as a table, with cells that are cut but not yet made to fit a width."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def trace_table(trace: Trace, at: int | None) -> TraceTable:
    """Return a run as a table.

    Args:
        trace: the run.
        at: the number of the step that went wrong: the table has the rows around it, and marks it.
            If `at` is None, the table has the first and the last rows.
    """
    steps, raised = trace.steps, trace.raised
    if raised is not None:
        at = len(steps)
    layers = _layers(steps)
    as_bytes = not any(new.has_vocabulary for new in trace.new)
    columns = ("call", "emitted", *layers.values())
    rows = []
    for place in _chosen(len(steps) + (raised is not None), at):
        if isinstance(place, str):
            rows.append(Row((place,), is_gap=True))
            continue
        if raised is not None and place == len(steps):
            cells: tuple[str, ...] = (_cut(raised.call), _cut(f"raised {raised.kind}"))
        else:
            cells = _row(steps[place], layers, as_bytes)
        missing = [""] * (len(columns) - len(cells))
        rows.append(Row((*cells, *missing), marked=place == at))
    return TraceTable(columns, tuple(rows))


def last_rows(trace: Trace, most: int) -> TraceTable:
    """Return the last calls of a run as a table without gaps, `most` at most."""
    layers = _layers(trace.steps)
    as_bytes = not any(new.has_vocabulary for new in trace.new)
    raised = [] if trace.raised is None else [trace.raised]
    steps = trace.steps[max(0, len(trace.steps) + len(raised) - most) :]
    rows = [Row(_row(step, layers, as_bytes)) for step in steps]
    rows += [Row((_cut(error.call), _cut(f"raised {error.kind}"))) for error in raised]
    return TraceTable(("call", "emitted", *layers.values()), tuple(rows))


def calls_of(trace: Trace, at: int | None) -> list[Call]:
    """Return the calls that the table of a run shows, up to the step that went wrong."""
    calls = [step.call for step in trace.steps]
    if trace.raised is not None:
        at = len(calls)
        calls += [trace.pending] if trace.pending is not None else []
    end = len(calls) if at is None else at + 1
    places = (place for place in _chosen(len(calls), at) if isinstance(place, int))
    return [calls[place] for place in places if place < end]


def drawn(table: TraceTable, indent: int) -> list[str]:
    """Return the lines of a table, for a terminal.

    Args:
        table: the table.
        indent: how far the first line's label reaches.
    """
    rows = [table.columns, *(row.cells for row in table.rows)]
    rows = [(*row, *[""] * (len(table.columns) - len(row))) for row in rows]
    widths = _fit([max(map(len, column)) for column in zip(*rows, strict=True)])
    labels = ["trace", *[""] * (len(rows) - 1)]
    marks = ["", *(">" if row.marked else "" for row in table.rows)]
    return [
        f"{label:<{indent - 2}}{mark:<2}{_joined(row, widths)}".rstrip()
        for label, mark, row in zip(labels, marks, rows, strict=True)
    ]


def _layers(steps: Sequence[Step]) -> dict[str | None, str]:
    """Return the columns of held text: one, or one for each key of a dict; none without `held`."""
    held = [step.held for step in steps if step.held is not None]
    if held and all(type(value) is dict and all(type(k) is str for k in value) for value in held):
        layers = {key: _cut(key) for value in held for key in value}
        if len(layers) <= _MOST_LAYERS:
            return {**layers}
    return {None: "held"} if held else {}


def _chosen(count: int, at: int | None) -> list[int | str]:
    """Return the numbers of the steps to show, with a text for each gap."""
    if count <= _ROWS:
        return [*range(count)]
    shown = _ROWS - 1
    if at is None:
        return [*range(shown - 2), f"… {count - shown} more …", count - 2, count - 1]
    start = min(max(0, at - _BEFORE), count - shown)
    end = start + shown
    before: list[int | str] = [f"… {start} before …"] if start else []
    after: list[int | str] = [f"… {count - end} more …"] if end < count else []
    return [*before, *range(start, end), *after]


def _row(step: Step, layers: dict[str | None, str], as_bytes: bool) -> tuple[str, ...]:
    held = [
        step.held if key is None else step.held.get(key) if type(step.held) is dict else None
        for key in layers
    ]
    cells = ("" if value is None else _cut(_words(value)) for value in held)
    return _cut(step.call.render(as_bytes=as_bytes)), _cut(_words(step.result)), *cells


def _cut(text: str) -> str:
    return in_one_line(repeatable(text[:_MOST]))[:_MOST]


def _words(value: Any) -> str:
    """Return a value in a legible form: bytes in hex, events by their fields."""
    if type(value) is bytes:
        return value[:_MOST].hex(" ").upper() or "b''"
    if type(value) is Unreadable:
        return f"({value.in_short})"
    if type(value) is TextDelta:
        return written(value.text, _MOST)
    if type(value) is ToolCall:
        index = written(value.index, _MOST)
        return f"{index}: {value.name[:_MOST]}({value.arguments[:_MOST]})"
    if type(value) in EVENTS:
        return _event(value)
    if type(value) in (list, tuple) and _has_events(value):
        words = ", ".join(map(_words, value[:_MOST]))
        return f"[{words}]" if type(value) is list else f"({words})"
    return written(value, _MOST)


def _has_events(items: Sequence[Any]) -> bool:
    """Return whether events are among the items, or in a list among them."""
    some = items[:_MOST]
    return any(type(item) in EVENTS or (type(item) is list and _has_events(item)) for item in some)


def _event(event: Any) -> str:
    """Return an event with its fields by position, without trailing fields that have their default:
    `StopOutput('a', True, 7)`.
    """
    pairs = [(getattr(event, field.name), field.default) for field in fields(event)]
    while pairs and pairs[-1][0] == pairs[-1][1]:
        pairs.pop()
    words = ", ".join(written(value, _MOST) for value, _ in pairs)
    return f"{type(event).__name__}({words})"


def _fit(widths: list[int]) -> list[int]:
    """Make the widest columns smaller until all fit."""
    while sum(widths) + 2 * (len(widths) - 1) > _ROOM:
        widths[widths.index(max(widths))] -= 1
    return widths


def _joined(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (f"{clip(cell, width):<{width}}" for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells)
