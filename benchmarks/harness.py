"""What all benchmarks share: taking turns, medians, results as JSON, and the command line.

Contenders run in one process, pinned to one core where the system allows it. *Interleaved*: in each
round all of them run once, in random order, so that each finds the caches as the others left them,
and a noisy neighbour affects all. *Alone*: all rounds of one, then of the next, with warm caches.
As in `timeit`, the garbage collector is off while the clock runs.

But: on another machine, only the ratios between contenders of one run mean anything.
"""

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import aims
from benchmarks.aims import Aim
from benchmarks.peers.detokenizers import HAS_VLLM, VLLM_VERSION

OUT = Path(__file__).resolve().parent / "out"
PACKAGES = ("tokenizers", "tiktoken", "sentencepiece", "transformers", "mistral-common")
Work = Callable[[], object]


@dataclass
class Report:
    """What one group found.

    Attributes:
        name: the group's name; its file is `out/NAME.json`.
        about: what it measures, and how.
        quick: only check that everything runs; the figures mean nothing.
        tables: each with `title`, `header` and `rows`.
        targets: the judged figures, as `Aim.judge` returns them.
        counts: figures that are equal on every machine, for tests.
    """

    name: str
    about: str = ""
    quick: bool = False
    tables: list[dict[str, Any]] = field(default_factory=list)
    targets: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)

    @property
    def repeats(self) -> int:
        """How often everything is measured."""
        return 1 if self.quick else 7

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a table, and print it to show progress."""
        self.tables.append({"title": title, "header": list(header), "rows": [*map(list, rows)]})
        print_table(title, header, rows)

    def judge(self, aim: Aim, value: float, case: str = "") -> None:
        """Judge a figure by an aim.

        Args:
            aim: what the figure should be.
            value: the figure.
            case: the text, vocabulary or size that it was measured with, if there are several.
        """
        self.targets.append(aim.judge(value, case))

    def write(self) -> None:
        """Write the JSON file, whole or not at all."""
        content = {
            "name": self.name,
            "about": self.about,
            "quick": self.quick,
            "machine": machine(),
            "tables": self.tables,
            "targets": self.targets,
            "counts": self.counts,
        }
        text = json.dumps(content, indent=1, ensure_ascii=False)
        write_whole(result_path(self.name, quick=self.quick), text + "\n")


def result_path(name: str, *, quick: bool = False) -> Path:
    """Return the path of a group's results."""
    return OUT / f"{name}{'-quick' if quick else ''}.json"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, as wide as the terminal, or 120 columns wide."""
    table = Table(title=title, title_justify="left")
    for name, of_numbers in zip(header, are_numbers(rows), strict=True):
        table.add_column(name, justify="right" if of_numbers else "left")
    for row in rows:
        table.add_row(*map(shown, row))
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)


def are_numbers(rows: Sequence[Sequence[Any]]) -> list[bool]:
    """Return for each column whether it has a number."""
    return [
        any(isinstance(cell, int | float) for cell in cells) for cells in zip(*rows, strict=True)
    ]


def main(work: Callable[[Report], None], *, name: str, about: str, pin: bool = True) -> None:
    """Run a group from the command line.

    Args:
        work: fills the report.
        name: the group's name.
        about: its module's docstring.
        pin: keep the process on one core, where the system allows it.
    """
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=form)
    parser.add_argument("--quick", action="store_true", help="only check that everything runs")
    report = Report(name, about, parser.parse_args().quick)
    if pin and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    work(report)
    missed = [target for target in report.targets if not target["met"]]
    if not report.quick:
        for target in missed:
            print(f"MISSED  {aims.name(target)}: {target['value']:.2f}, aim {target['limit']}")
        print(f"{len(report.targets) - len(missed)} of {len(report.targets)} targets met")
    report.write()


def interleaved(work: dict[str, Work], repeats: int) -> dict[str, float]:
    """Return the median seconds of each contender; all run once a round, in random order."""
    generator = random.Random(0)
    order = [*work] * repeats
    for start in range(0, len(order), len(work)):
        part = [*work]
        generator.shuffle(part)
        order[start : start + len(work)] = part
    return _measure(work, order)


def alone(work: dict[str, Work], repeats: int) -> dict[str, float]:
    """Return the median seconds of each contender; all rounds of one, then of the next."""
    return _measure(work, [name for name in work for _ in range(repeats)])


def _measure(work: dict[str, Work], order: list[str]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in work}
    # A single round is a check that everything runs, and needs no warm caches.
    for run in work.values() if len(order) > len(work) else ():
        run()
    gc.collect()
    # Without a refreshing thread, only the contender runs while the clock does.
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(console=console, transient=True, auto_refresh=False, disable=hidden) as progress:
        task = progress.add_task("", total=len(order))
        for name in order:
            times[name].append(seconds(work[name]))
            progress.update(task, advance=1, description=name, refresh=True)
    return {name: statistics.median(samples) for name, samples in times.items()}


def seconds(run: Work) -> float:
    """Return how long one run takes."""
    gc.disable()
    try:
        start = time.perf_counter_ns()
        run()
        return (time.perf_counter_ns() - start) / 1e9
    finally:
        gc.enable()


def shown(value: Any) -> str:
    """Return a cell as text: a float with three digits, everything else in full."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def machine() -> dict[str, str]:
    """Return what the figures were measured on: the processor, the cores, and versions."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((ln.split(": ")[1] for ln in lines if ln.startswith("model name")), model)
    facts = {
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": f"{sys.implementation.name} {platform.python_version()}",
    }
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            facts[package] = version(package)
    if HAS_VLLM:
        facts["vLLM"] = f"{VLLM_VERSION}, two of its classes"
    return facts


def write_whole(path: Path, text: str) -> None:
    """Write a file in a git-ignored folder, whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    (path.parent / ".gitignore").write_text("*\n")
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
