"""How many streams a front of several processes holds, on paper: the figures of the page on fronts.

All costs are read from the tables of RESULTS.md, so the page cannot say anything else. The report
writes the part of the page between two markers, and a test compares it.
"""

import math
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "mini_vllm" / "engine" / "front.md"
BEGIN, END = "<!-- from RESULTS.md -->", "<!-- /from RESULTS.md -->"
# An engine of the examples: its slots, and the ids a second of each of them.
SLOTS, PACE = 256, 50
ENGINES = (1, 4, 16)
# How busy a process may be before a burst makes its streams wait.
BUSY = 0.5
MEMORY = 1 << 30
WIDTH = 100


def part(results: str) -> str:
    """Return the part of the page that is made of the text of RESULTS.md.

    Raises:
        ValueError: a table or a row is missing there.
    """
    chat, plain = (
        _figure(results, "Streams x tokens: events a second", 2, "256 x 100", f"ours, {kind}")
        for kind in ("chat", "completions")
    )
    path = _figure(results, r"16k, trained here: \d+ replies of \d+ ids", 1, "ours")
    first, slowest = (
        _figure(results, "From the request to the first byte.*", column, "256", "ours, chat")
        for column in (2, 3)
    )
    stream = _figure(results, r"Memory of a server \(bytes\)", 1, "a stream")
    ids = SLOTS * PACE
    holds = {
        "the events of chats": chat / PACE,
        "the events of completions": plain / PACE,
        "the text path alone, without HTTP and JSON": 1e9 / path / PACE,
        "1 GiB of memory": MEMORY / stream,
    }
    limit = min(holds, key=holds.__getitem__)
    mean = chat * BUSY / PACE
    rows = [
        f"| {engines} | {engines * SLOTS:,} | {engines * ids:,} |"
        f" {math.ceil(engines * ids / chat / BUSY)} | {engines * SLOTS * stream / 1e6:.0f} MB |"
        for engines in ENGINES
    ]
    lines = [
        _point(
            f"An engine has {SLOTS} slots of {PACE} ids a second each: {SLOTS} x {PACE} = {ids:,}"
            " ids a second."
        ),
        _point(
            f"A process writes {chat:,.0f} events of chats a second, one event for each id, so this"
            f" engine keeps it busy for {ids:,} / {chat:,.0f} = {ids / chat:.2f} of the time."
        ),
        _point(
            f"A process that is busy for {BUSY} of the time holds {chat:,.0f} x {BUSY} / {PACE} ="
            f" {mean:.0f} streams, and their memory is {mean:.0f} x {stream / 1e3:.0f} kB ="
            f" {mean * stream / 1e6:.0f} MB."
        ),
        "",
        f"So M engines need N processes, each busy for at most {BUSY} of the time:",
        "",
        "| engines (M) | streams | ids a second | processes (N) | memory of all streams |",
        "|---:|---:|---:|---:|---:|",
        *rows,
        "",
        f"How many streams of {PACE} ids a second a process holds, if only one thing limits it:",
        "",
        "| limit | streams |",
        "|---|---:|",
        *(f"| {name} | {count:,.0f} |" for name, count in holds.items()),
        "",
        textwrap.fill(
            f"The first limit is {limit}. An event of a chat takes {1e6 / chat:.1f} us; the text"
            f" path has {path / 1e3:.1f} us of them. If {SLOTS} chats arrive at the same moment,"
            f" the median first byte arrives after {first:.0f} ms, and the 99th percentile after"
            f" {slowest:.0f} ms.",
            WIDTH,
        ),
    ]
    return "\n".join(lines) + "\n"


def _point(text: str) -> str:
    return textwrap.fill(f"- {text}", WIDTH, subsequent_indent="  ")


def page(text: str, results: str) -> str:
    """Return the text of the page with its part of RESULTS.md renewed.

    Raises:
        ValueError: a table or a row is missing there, or the markers in the page.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{PAGE.name} has no lines {BEGIN} and {END} to write between")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{part(results)}\n{END}{rest.partition(END)[2]}"


def _figure(results: str, title: str, column: int, *row: str) -> float:
    """Return a figure of the first table with a title, in the row that begins with these cells."""
    table = re.search(rf"(?m)^\*\*{title}\*\*\n\n((?:\|.*\n)+)", results)
    for line in table[1].splitlines() if table else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[: len(row)] == [*row]:
            return float(cells[column].replace(",", ""))
    raise ValueError(f"RESULTS.md has no table {title!r} with a row {', '.join(row)}")
