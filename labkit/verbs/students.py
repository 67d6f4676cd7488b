"""The verbs for students, which every edition has."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.running.lab_impl import NO_REFERENCE
from labkit.student.pick import add_lab, add_pytest, add_task, lab_or_next, remember, task_of
from labkit.student.progress import Progress, next_alive
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


def _hint(args: argparse.Namespace, root: Path) -> int:
    from rich.console import Console
    from rich.markdown import Markdown

    from labkit.course.hints import read_hints

    progress = Progress(root)
    at_work = progress.at_work(find_labs(root)) if not args.lab else None
    lab = at_work or lab_or_next(args.lab, root)
    if not args.task and progress.passes(lab):
        again = f"make hint N={lab.number} T={lab.tasks[0].number}"
        print(f"{lab.label} passes, so it needs no hint. To read its hints: {again}")
        return 0
    task = task_of(lab, args.task) if args.task else progress.next_task(lab)
    title = next(row.title for row in lab.tasks if row.number == task)
    about: int | str = task
    alive = next_alive(lab, task, progress)
    if alive is None:
        what = f"task {task} ({title})"
        hints = [(hint.symptom.strip(), hint.text) for hint in read_hints(lab)[task]]
    else:
        about = alive.name
        what = alive.name
        hints = [(alive.symptom, text) for text in alive.hints]
    level = progress.next_hint(lab, about, len(hints))
    console = Console(width=88 if not sys.stdout.isatty() else None, highlight=False, markup=False)
    console.print(f"{lab.label} {what}, hint {level} of {len(hints)}:")
    symptom, text = hints[level - 1]
    console.print(Markdown(f"*{symptom}*\n\n{text}"))
    again = f"make hint N={lab.number} T={task}"
    if level < len(hints):
        console.print(f"\nOne level deeper: {again}")
    else:
        console.print(f"\nThis is the last hint of {'this task' if alive is None else alive.name}.")
    remember(partial(progress.save_hint, lab, about, level))
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
             here(_hint, add_lab, add_task)),
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
})  # fmt: skip
