"""The pipeline of `make progress`: a box for each layer, filled if the layer is the student's."""

from collections.abc import Sequence

from labkit.course.lab import PIPELINE, ROLES, TEXT_PATH, Lab
from labkit.student.progress import Progress

_ARROW = "─▶"
_FILL = "▓"
_LEGEND = f"your layers are filled ({_FILL}); make demo shows them live"
# A layer as three lines of equal length.
_Box = tuple[str, str, str]


def picture(labs: Sequence[Lab], progress: Progress, width: int) -> str:
    """Return the pipeline that the labs make as lines of at most `width` columns; "" for none.

    The lab in a box is the one that makes the layer: the latest that passes, else the first.
    """
    made = {role: _lab_of(role, labs, progress) for role in ROLES}
    layers = [(role, *lab) for role, lab in made.items() if lab and role != PIPELINE]
    if not layers:
        return ""
    composed = made[PIPELINE]
    ends = [(role in TEXT_PATH, _box(role, lab, own=own)) for role, lab, own in layers]
    lines, title = [_LEGEND], "" if composed is None else f" {PIPELINE}, lab {composed[0].number} "
    for row in _rows([(False, _word("ids")), *ends, (False, _word("client"))], width):
        lines += filter(str.strip, map("".join, zip(*(box for _, box in row), strict=True)))
        inside = [place for place, (is_text, _) in enumerate(row) if is_text]
        if composed and inside:
            before = sum(len(box[0]) for _, box in row[: inside[0]])
            inner = sum(len(box[0]) for _, box in row[inside[0] : inside[-1] + 1]) - 2
            bar = title[:inner].center(inner, _FILL if composed[1] else "─")
            lines.append(f"{' ' * before}└{bar}┘")
            title = ""
    return "\n".join(line.rstrip() for line in lines)


def _lab_of(role: str, labs: Sequence[Lab], progress: Progress) -> tuple[Lab, bool] | None:
    """Return the lab that makes a layer, and whether it passes."""
    makers = [lab for lab in labs if any(row.role == role for row in lab.serves)]
    passing = [lab for lab in makers if progress.passes(lab)]
    if passing:
        return passing[-1], True
    return (makers[0], False) if makers else None


def _box(role: str, lab: Lab, *, own: bool) -> _Box:
    label = f" lab {lab.number} "
    inner = max(len(role) + 2, len(label)) + 2
    fill = _FILL if own else " "
    return (
        f"┌{'─' * inner}┐",
        f"│{f' {role} '.center(inner, fill)}│",
        f"└{label.center(inner, '─')}┘",
    )


def _word(text: str) -> _Box:
    return " " * len(text), text, " " * len(text)


def _rows(boxes: Sequence[tuple[bool, _Box]], width: int) -> list[list[tuple[bool, _Box]]]:
    """Return the boxes in rows, an arrow before each but the first."""
    arrow = (False, _word(_ARROW))
    rows: list[list[tuple[bool, _Box]]] = [[]]
    room = width
    for number, box in enumerate(boxes):
        pair = [arrow, box] if number else [box]
        size = sum(len(top) for _, (top, _, _) in pair)
        if size > room and rows[-1]:
            rows.append([])
            room = width
        rows[-1] += pair
        room -= size
    return rows
