"""The verbs for students, which every edition has."""

import argparse
import os
import sys
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.running.lab_impl import NO_REFERENCE
from labkit.student.pick import add_lab, add_pytest, add_task, lab_or_next, task_of
from labkit.student.progress import Progress
from labkit.verbs import Table, here, option


def _lab(args: argparse.Namespace, root: Path) -> int:
    lab = lab_or_next(args.lab, root)
    task = ["--lab-task", str(task_of(lab, args.task))] if args.task else []
    return run_pytest(lab, root, args.impl, *task, *args.pytest)


def run_pytest(lab: Lab, root: Path, implementation: str, *options: str) -> int:
    """Run one lab in this process, like the pytest command; return pytest's exit code."""
    import pytest

    os.environ["LAB_IMPL"] = implementation
    os.chdir(root)
    # Without a cache, only `--lf` does not work.
    quiet = ["-q", "-W", "ignore::pytest.PytestCacheWarning"]
    code = int(pytest.main([str(lab.path), *quiet, *options]))
    # Quitting a debugger is not an error.
    return 1 if code == pytest.ExitCode.INTERRUPTED else code


def _progress(args: argparse.Namespace, root: Path) -> int:
    import shutil

    from labkit.student.board import board

    width = min(88, shutil.get_terminal_size((80, 24)).columns)
    print(board(find_labs(root), Progress(root), colour=sys.stdout.isatty(), width=width))
    return 0


def _solution(args: argparse.Namespace, root: Path) -> int:
    from rich.console import Console
    from rich.syntax import Syntax

    lab = pick_lab(find_labs(root), args.lab)
    if not Progress(root).record(lab).solved:
        print(
            f"The reference of {lab.label} is shown once your code passes: make lab N={lab.number}"
        )
        print(f"Stuck? make hint N={lab.number}")
        return 1
    if not lab.solution.exists():
        raise UsageError(f"{lab.label}: {NO_REFERENCE}; your instructor has them")
    print(f"# {lab.solution.relative_to(root)}")
    text = lab.solution.read_text(encoding="utf-8")
    if sys.stdout.isatty():
        Console().print(Syntax(text, "python"))
    else:
        print(text)
    return 0


def _reset(args: argparse.Namespace, root: Path) -> int:
    import shutil
    import time

    lab = pick_lab(find_labs(root), args.lab)
    pristine = lab.pristine_starter.read_bytes()
    if lab.starter.exists() and lab.starter.read_bytes() == pristine:
        print(f"{lab.starter.relative_to(root)} is unchanged since it was handed out.")
        return 0
    if lab.starter.exists():
        answer = _ask(f"Replace {lab.starter.relative_to(root)} with a fresh copy? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("Nothing was changed.")
            return 1
        backup = lab.starter.with_name(f"starter.{time.strftime('%Y%m%d-%H%M%S')}.bak")
        shutil.copy2(lab.starter, backup)
        print(f"Your file is kept as {backup.relative_to(root)}.")
    lab.starter.write_bytes(pristine)
    print(f"{lab.starter.relative_to(root)} is a fresh copy.")
    return 0


def _ask(question: str) -> str:
    try:
        return input(question)
    except EOFError:
        print()
        return ""


def _demo(args: argparse.Namespace, root: Path) -> int:
    import runpy

    shows = sorted(root.glob("phase-*/demo.py"))
    if not shows:
        raise UsageError(f"there is no phase-*/demo.py in {root}")
    sys.argv = [str(shows[0]), *args.words]
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def _serve(args: argparse.Namespace, root: Path) -> int:
    from labkit.serving.serve import run

    return run(args.words, root)


_IMPL = option("--impl", default="starter", help="as LAB_IMPL (default: starter)")

TABLE = Table("For students", "hint --lab 03 --task 2", {
    "lab": (
        "grade the starter.py of the next unfinished lab, or of --lab",
        here(_lab, add_lab, add_task, _IMPL, add_pytest),
    ),
    "progress": ("show the scores of all labs", here(_progress)),
    "hint": ("print the next hint for a task, one level deeper each time",
             "labkit.student.hint"),
    "show": ("step through the first failing case in your own code", "labkit.student.show"),
    "predict": ("ask what a lab's code will do, before you write the code; nothing is graded",
                "labkit.student.predict"),
    "race": ("measure your code beside a naive version, and beside the reference if it is here",
             "labkit.student.race"),
    "watch": ("run a lab whenever its starter.py is saved; once it passes, go on to the next lab",
              "labkit.student.watch"),
    "solution": ("print the reference of a lab that you have passed",
                 here(_solution, add_lab)),
    "reset": ("replace starter.py with a fresh copy, and keep a backup", here(_reset, add_lab)),
    "demo": ("show the pipeline live in the terminal", here(_demo)),
    "serve": ("serve an OpenAI-compatible API, with a page to watch it", here(_serve)),
    "bundle": ("write the zip to hand in", "labkit.publish.bundle"),
    "plugin": ("write a passing lab as a plug-in of vLLM and SGLang",
               "labkit.publish.engine_plugin"),
})  # fmt: skip
