"""Write RESULTS.md from the results in `benchmarks/out/`. Run `python -m benchmarks` first.

A group without results there keeps the section that the page has of it, and its rows in the table
of the aims. The page on fronts of several processes gets its figures from the written page.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks import aims, capacity
from benchmarks.__main__ import GROUPS
from benchmarks.harness import OUT, are_numbers, shown

_AIMS = "## Aims\n"
PAGE = Path(__file__).resolve().parent / "RESULTS.md"
CHART = PAGE.with_name("detokenize.svg")
HEAD = """\
# Benchmark results

Written by `python -m benchmarks.report` after `python -m benchmarks`. Contenders ran side by side
in one process; figures are medians. Only ratios mean something on another machine.

"""


def main() -> int:
    """Write the page and the chart; return the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--date", required=True, type=date.fromisoformat, help="of the page")
    parser.add_argument("--from", dest="folder", type=Path, default=OUT, help="of the JSON files")
    parser.add_argument("--to", type=Path, default=PAGE, help="file to write")
    args = parser.parse_args()
    paths = [args.folder / f"{name}.json" for name in GROUPS]
    groups = [json.loads(path.read_text("utf-8")) for path in paths if path.is_file()]
    if not groups:
        print(f"No results in {args.folder}. Run: python -m benchmarks", file=sys.stderr)
        return 1
    before = args.to.read_text(encoding="utf-8") if args.to.is_file() else ""
    args.to.write_text(page(groups, args.date, before), encoding="utf-8")
    print(f"wrote {', '.join(group['name'] for group in groups)} into {args.to.name}")
    if args.to == PAGE:
        text = capacity.page(capacity.PAGE.read_text("utf-8"), PAGE.read_text("utf-8"))
        capacity.PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {capacity.PAGE.name}")
    if groups[0]["name"] == "detokenize":
        args.to.with_name(CHART.name).write_text(chart(groups[0]), encoding="utf-8")
        print(f"wrote {CHART.name}")
    return 0


def page(groups: list[dict[str, Any]], day: date, before: str = "") -> str:
    """Return the page for the groups' results, with the other sections that it had before."""
    sections = dict(re.findall(r"(?ms)^(## (?:\w+)\n)(.*?)(?=^## |\Z)", before))
    sections |= {f"## {group['name']}\n": _section(group, day) for group in groups}
    if table := _aims(groups, sections.pop(_AIMS, "")):
        sections[_AIMS] = table
    titles = [_AIMS, *(f"## {name}\n" for name in GROUPS)]
    parts = [f"{title}{sections[title].rstrip()}\n\n" for title in titles if title in sections]
    return "".join([HEAD, *parts]).rstrip() + "\n"


def _aims(groups: list[dict[str, Any]], before: str) -> str:
    """Return the section of the aims, with the earlier rows of groups that have no results.

    Without any row it is empty.
    """
    lines = {name: re.findall(rf"(?m)^\| {name} \|.*\n", before) for name in GROUPS}
    for group in groups:
        lines[group["name"]] = [_line(row) for row in aims.rows([group])]
    if not any(lines.values()):
        return ""
    rule = _rule([name == "ratio" for name in aims.HEADER])
    return f"\n{aims.ABOUT}\n{_line(aims.HEADER)}{_line(rule)}" + "".join(chain(*lines.values()))


def _section(group: dict[str, Any], day: date) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in group["machine"].items())
    parts = [f"\n*Measured on {day}: {machine}.*\n\n{group['about'].strip()}\n\n"]
    if group["name"] == "detokenize":
        parts.append(f"![Nanoseconds a token, by contender]({CHART.name})\n\n")
    parts += map(_table, group["tables"])
    if group["targets"]:
        parts.append(_targets(group["targets"]))
    return "".join(parts)


def _table(table: dict[str, Any]) -> str:
    rows = [table["header"], _rule(are_numbers(table["rows"])), *table["rows"]]
    return f"**{table['title']}**\n\n{''.join(map(_line, rows))}\n"


def _line(row: Sequence[Any]) -> str:
    return f"| {' | '.join(shown(cell).replace('|', chr(92) + '|') for cell in row)} |\n"


def _rule(of_numbers: Sequence[bool]) -> list[str]:
    return ["---:" if number else "---" for number in of_numbers]


def _targets(targets: list[dict[str, Any]]) -> str:
    missed = [target for target in targets if not target["met"]]
    text = f"{len(targets) - len(missed)} of {len(targets)} targets met.\n\n"
    for target in missed:
        text += f"- missed: {aims.name(target)}: {target['value']:.2f}, aim {target['limit']}\n"
    return text + "\n" * bool(missed)


def chart(group: dict[str, Any]) -> str:
    """Return the last vocabulary's interleaved table as an SVG bar chart, text by text."""
    table = [table for table in group["tables"] if "interleaved" in table["title"]][-1]
    names = [name for name in table["header"][1:] if not name.endswith(" x")]
    bars = [
        (row[0], n, value)
        for row in table["rows"]
        for n, value in zip(names, row[1:], strict=False)
    ]
    most = max(value for _, _, value in bars)
    lines = [f'<text x="8" y="18">{table["title"]}</text>']
    y = 34
    for number, (kind, name, value) in enumerate(bars):
        first = number % len(names) == 0
        y += 8 * first
        width = max(1, 420 * value / most)
        colour = "#2a7" if name == "ours" else "#bbb" if name == "floor" else "#57a"
        lines += [
            f'<text x="8" y="{y + 11}">{kind if first else ""}</text>',
            f'<text x="60" y="{y + 11}">{name}</text>',
            f'<rect x="140" y="{y}" width="{width:.0f}" height="13" fill="{colour}"/>',
            f'<text x="{146 + width:.0f}" y="{y + 11}">{shown(value)}</text>',
        ]
        y += 17
    body = "\n".join(line for line in lines if "></text>" not in line)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{y + 8}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    sys.exit(main())
