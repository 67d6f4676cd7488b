"""The command line of `python -m labkit grade`."""

import argparse
import os
from pathlib import Path


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the paths and options of the verb to its parser."""
    add = command.add_argument
    add(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a starter.py, a lab's folder, a bundle, or a folder or zip of submissions",
    )
    add("--lab", default="", metavar="N", help="the lab, 03; without it names and bundles tell")
    add("--seed", default="0", metavar="S", help="of the randomised tests (default 0)")
    add("--overlay", type=Path, metavar="FOLDER", help="hidden tests")
    add("--json", type=Path, metavar="FILE", help="write all grades with all tests")
    add("--csv", type=Path, metavar="FILE", help="write a gradebook with nbgrader's columns")
    add("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    add("--html", type=Path, metavar="FILE", help="write one page with everything, for a browser")
    add("--quiet", action="store_true", help="print no report")
    how = command.add_mutually_exclusive_group()
    how.add_argument(
        "--container",
        action="store_true",
        help="this machine is a container that is thrown away: another user, limits, a pipe",
    )
    how.add_argument("--trust", action="store_true", help="no walls: for your own code only")
    add("--jobs", type=int, default=_cpus(), metavar="J", help="how many at once (default: CPUs)")
    add("--ledger", type=Path, metavar="FILE", help="remember grades; a run that stopped goes on")
    add("--cluster", metavar="ADDRESS", help="of a Dask scheduler whose workers grade")


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
