"""Every tool-call format: the time per character of the same calls, as a multiple of Hermes'.

Each format writes the same calls in its own way, as the renderers of its tests do: a text of about
1,500 characters, such as a file, and a number, an object and a list. The texts come in pieces of
about four characters, as a model's tokens are. Formats that write elements, Python or literals of
their own have their arguments turned into JSON; the others pass them on.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.aims import at_most
from benchmarks.harness import Report, Work, interleaved, main
from benchmarks.materials import texts
from mini_vllm.text.tool_parsers import create_tool_parser

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "text"))
from families import STYLES
from renderers import TOOLS, Call

BASE = "hermes"
DEAREST = at_most("the dearest format / peer", BASE, 2)
CALLS = 12
QUICK_CALLS = 2
ARGUMENTS = {
    "path": "src/engine/stream.py: the text of a line, with a word or two more, and \u00e9 \u4f60. "
    * 20,
    "count": 12345,
    "options": {"recursive": True, "depth": 3, "names": ["alpha", "beta", "gamma"]},
    "items": [1, 2, 3, None, 4.5],
}


def work(report: Report) -> None:
    """Measure each style of each format."""
    pieces = {name: _pieces(name, QUICK_CALLS if report.quick else CALLS) for name in STYLES}
    runs: dict[str, Work] = {name: partial(_run, name, pieces[name]) for name in STYLES}
    taken = interleaved(runs, report.repeats)
    sizes = {name: sum(map(len, parts)) for name, parts in pieces.items()}
    each = {name: seconds / sizes[name] for name, seconds in taken.items()}
    rows = [
        [name, sizes[name], each[name] * 1e9, each[name] / each[BASE]]
        for name in sorted(STYLES, key=each.__getitem__)
    ]
    header = ["way of writing", "characters", "ns a character", f"{BASE} x"]
    report.table("Every format", header, rows)
    dearest = max(each, key=each.__getitem__)
    report.judge(DEAREST, each[dearest] / each[BASE], dearest)
    report.counts = sizes


class Plain:
    """A layout that takes the first, plainest way of writing."""

    def choice(self, ways: Sequence[object]) -> object:
        """Return the first."""
        return ways[0]

    def randint(self, least: int, most: int) -> int:
        """Return the least."""
        return least

    def random(self) -> float:
        """Return what draws nothing unusual."""
        return 0.5


def _pieces(name: str, calls: int) -> list[str]:
    """Return calls as a format writes them, in pieces of two to six characters."""
    prose = [""] * (calls + 1)
    text, _ = STYLES[name].render([Call("get_weather", ARGUMENTS)] * calls, prose, Plain())
    return texts.in_pieces(text, 0)


def _run(name: str, pieces: list[str]) -> None:
    parser = create_tool_parser(STYLES[name].format, tools=TOOLS)
    for piece in pieces:
        parser.feed(piece)
    parser.flush()


if __name__ == "__main__":
    main(work, name="formats", about=__doc__)
