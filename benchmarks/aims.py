"""Aims: what the figures of the benchmarks should be, and the one table of what they are.

A benchmark declares its aims as data and has each figure judged, case by case: a text, a
vocabulary, a number of streams. The table has a row for each aim, with the worst of its cases.

But: nothing fails if an aim is missed. The figures of a busy machine say little.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEADER = ("group", "what", "peer", "ratio", "aim", "met")
ABOUT = """\
The ratio is the worst of all cases. Without a peer, it is the figure itself. If only some cases
miss the aim, the last column says how many meet it.
"""
Result = Mapping[str, Any]
Row = Sequence[Any]


@dataclass(frozen=True)
class Aim:
    """What a figure should be.

    Attributes:
        what: the figure; for a ratio, it says which of the two is divided by which.
        peer: the contender on the other side of the ratio; `""` if the figure is ours alone.
        limit: the least or the most, in the unit of the figure.
        is_least: whether the limit is the least.
    """

    what: str
    peer: str
    limit: float
    is_least: bool

    def judge(self, value: float, case: str = "") -> dict[str, Any]:
        """Return the target of a figure: the aim, the case, the value, and whether it is met."""
        met = value >= self.limit if self.is_least else value <= self.limit
        limit = f"{'>=' if self.is_least else '<='} {self.limit:,g}"
        return {"what": self.what, "peer": self.peer, "case": case, "value": value, "limit": limit,
                "met": met}  # fmt: skip


def at_least(what: str, peer: str, limit: float) -> Aim:
    """Return the aim that a figure is at least `limit`."""
    return Aim(what, peer, limit, True)


def at_most(what: str, peer: str, limit: float) -> Aim:
    """Return the aim that a figure is at most `limit`."""
    return Aim(what, peer, limit, False)


def rows(results: Iterable[Result]) -> list[Row]:
    """Return the table's rows for the results of groups: a row for each aim, its worst case."""
    by_aim: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        for target in result["targets"]:
            key = (result["name"], target["what"], target["peer"], target["limit"])
            by_aim.setdefault(key, []).append(target)
    return [
        [group, what, peer, _worst(cases), limit, _met(cases)]
        for (group, what, peer, limit), cases in by_aim.items()
    ]


def _worst(cases: Sequence[Result]) -> float:
    values = [float(case["value"]) for case in cases]
    return min(values) if cases[0]["limit"].startswith(">=") else max(values)


def _met(cases: Sequence[Result]) -> str:
    met = sum(case["met"] for case in cases)
    if met == len(cases):
        return "yes"
    return f"{met} of {len(cases)}" if len(cases) > 1 else "no"


def name(target: Result) -> str:
    """Return a target's name for a line of its own."""
    return ", ".join(filter(None, (target["what"], target["peer"], target["case"])))
