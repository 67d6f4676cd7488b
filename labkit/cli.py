"""The verbs of `python -m labkit`, behind one parser: what each is called, takes, and does.

Only the verb that was called declares its options, so `make lab` does not import the grader.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from labkit.course.lab import ROOT, Lab, find_labs, pick_lab
from labkit.errors import LabkitError, UsageError
from labkit.running.lab_impl import NO_REFERENCE
from labkit.student.pick import add_lab, add_pytest, add_task, lab_or_next, remember, task_of
from labkit.student.progress import Progress, next_alive

Run = Callable[[argparse.Namespace, Path], int]
Declare = Callable[[argparse.ArgumentParser], Run]


def main(argv: list[str], root: Path = ROOT) -> int:
    """Run one verb. Returns 0, 1 (tests or gates failed), 2 (usage), or 3 (grading broke off)."""
    try:
        args = _parse(argv, root)
        run: Run = args.run
        return run(args, root)
    except LabkitError as error:
        print(f"labkit: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has left (`make lab | head`); nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"labkit: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """One whose complaint is one line, as that of any other mistake; subparsers are of it too."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where the rest is told; exit with 2."""
        self.exit(2, f"labkit: {message}; `{self.prog} --help` tells what it takes\n")


def _parse(argv: list[str], root: Path) -> argparse.Namespace:
    """Return the options of the verb that was called, and what runs it."""
    parser = _Parser(
        prog="python -m labkit",
        description="Run, check and grade the labs. `VERB --help` shows what a verb takes.",
        epilog=_list_of_verbs(root),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _check_verb(argv, parser, root)
    commands = parser.add_subparsers(required=True, metavar="VERB", help="one of those below")
    for name, (does, declare) in [row for verbs in _VERBS.values() for row in verbs.items()]:
        command = commands.add_parser(name, description=f"{does[0].upper()}{does[1:]}.")
        if name in argv[:1]:
            command.set_defaults(run=declare(command))
    if argv[:1] and argv[0] in _PASSED_ON:
        return parser.parse_args(argv[:1], argparse.Namespace(words=argv[1:]))
    return parser.parse_args(argv)


def _check_verb(argv: list[str], parser: _Parser, root: Path) -> None:
    """Stop at a word that is no verb, with the verbs of `--help`."""
    if argv and not argv[0].startswith("-") and not any(argv[0] in row for row in _VERBS.values()):
        names = ", ".join(name for verbs in _verbs_here(root).values() for name in verbs)
        parser.error(f"there is no verb {argv[0]!r}; the verbs are {names}")


def _list_of_verbs(root: Path) -> str:
    """Return the verbs by audience, and what they do."""
    lines = []
    for audience, verbs in _verbs_here(root).items():
        lines += ["", f"{audience}, for example `python -m labkit {_EXAMPLES[audience]}`:"]
        lines += (f"  {name:<16} {does}" for name, (does, _) in verbs.items())
    return "\n".join(lines[1:])


def _verbs_here(root: Path) -> dict[str, dict[str, tuple[str, Declare]]]:
    """Return the verbs by audience; where there are no references, those that need none."""
    if any(root.glob("phase-*/labs/*/solution.py")):
        return _VERBS
    audience, verbs = next(iter(_VERBS.items()))
    return {audience: {name: verbs[name] for name in verbs if name != "solution"}}


def _lab(args: argparse.Namespace, root: Path) -> int:
    lab = lab_or_next(args.lab, root)
    task = ["--lab-task", str(task_of(lab, args.task))] if args.task else []
    return _run_pytest(lab, root, args.impl, *task, *args.pytest)


def _run_pytest(lab: Lab, root: Path, implementation: str, *options: str) -> int:
    """Run one lab in this process, as the raw pytest command would; return pytest's exit code."""
    import pytest

    os.environ["LAB_IMPL"] = implementation
    os.chdir(root)
    # A cache that cannot be written costs `--lf` only.
    quiet = ["-q", "-W", "ignore::pytest.PytestCacheWarning"]
    code = int(pytest.main([str(lab.path), *quiet, *options]))
    # Whoever quits a debugger has said all there is to say.
    return 1 if code == pytest.ExitCode.INTERRUPTED else code


def _progress(args: argparse.Namespace, root: Path) -> int:
    from labkit.student.board import board

    print(board(find_labs(root), Progress(root), colour=sys.stdout.isatty()))
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
        print(f"{lab.label} passes, so there is nothing to hint at. To read its hints: {again}")
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
        what = f"{alive.name}, which is alive"
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
        console.print(f"\nThis is the last hint of {'this task' if alive is None else 'it'}.")
    remember(partial(progress.save_hint, lab, about, level))
    return 0


def _solution(args: argparse.Namespace, root: Path) -> int:
    from rich.console import Console
    from rich.syntax import Syntax

    lab = pick_lab(find_labs(root), args.lab)
    if not Progress(root).record(lab).solved:
        print(
            f"The reference of {lab.label} is shown once your own passes: make lab N={lab.number}"
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
        print(f"{lab.starter.relative_to(root)} is already as it was handed out.")
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
    print(f"{lab.starter.relative_to(root)} is fresh.")
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


def _bug(args: argparse.Namespace, root: Path) -> int:
    lab = pick_lab(find_labs(root), args.lab)
    if args.bug:
        return _run_pytest(lab, root, f"bug:{args.bug}")
    if not lab.bugs:
        raise UsageError(f"{lab.label} has no known bugs here: a student edition leaves them out")
    for bug in lab.bugs:
        print(f"{bug.name:<22} {bug.title}")
    print(f"\nmake bug N={lab.number} B={lab.bugs[0].name}   runs the lab's tests on one")
    return 0


def _matrix(args: argparse.Namespace, root: Path) -> int:
    from labkit.course.matrix import write

    changed = write(root)
    for path in changed:
        print(f"wrote {path.relative_to(root)}")
    if not changed:
        print("Ladder and kill matrix are up to date.")
    return 0


def _here(run: Run, *declare: Callable[[argparse.ArgumentParser], object]) -> Declare:
    """Return what declares a verb of this file: its options, each by a function."""

    def declare_all(command: argparse.ArgumentParser) -> Run:
        for add in declare:
            add(command)
        return run

    return declare_all


def _option(name: str, **facts: Any) -> Callable[[argparse.ArgumentParser], object]:
    """Return what adds an option to a verb."""
    return lambda command: command.add_argument(name, **facts)


def _in(module: str) -> Declare:
    """Return what declares a verb whose module has `add_options(command)` and `run(args, root)`."""

    def declare(command: argparse.ArgumentParser) -> Run:
        verb = importlib.import_module(module)
        verb.add_options(command)
        run: Run = verb.run
        return run

    return declare


_IMPL = _option("--impl", default="starter", help="as LAB_IMPL (default: starter)")
_BUG = _option("--bug", default="", metavar="NAME", help="name of a bug")

# By audience, in the order of `--help`: a verb, what it does, and what declares its options.
_VERBS: dict[str, dict[str, tuple[str, Declare]]] = {
    "For students": {
        "lab": (
            "grade a starter.py: of the next unfinished lab, or of --lab",
            _here(_lab, add_lab, add_task, _IMPL, add_pytest),
        ),
        "progress": ("show the board of all labs", _here(_progress)),
        "hint": ("print the next hint for a task, one level deeper each time",
                 _here(_hint, add_lab, add_task)),
        "predict": ("ask what a lab's code will do, before you write it; nothing is graded",
                    _in("labkit.student.predict")),
        "race": ("measure your code beside a naive version, and the reference if it is here",
                 _in("labkit.student.race")),
        "watch": ("run a lab whenever its starter.py is saved, and go on when it passes",
                  _in("labkit.student.watch")),
        "solution": ("print the reference of a lab that you have passed",
                     _here(_solution, add_lab)),
        "reset": ("put the pristine starter.py back, keeping a backup", _here(_reset, add_lab)),
        "demo": ("show the pipeline live in the terminal", _here(_demo)),
        "serve": ("serve an OpenAI-compatible API, with a page to watch it", _here(_serve)),
        "bundle": ("write the zip to hand in", _in("labkit.publish.bundle")),
    },
    "For instructors": {
        "bug": ("list a lab's known bugs, or run its tests on one", _here(_bug, add_lab, _BUG)),
        "grade": ("grade what was handed in, behind walls: one file or a cohort",
                  _in("labkit.grading.command")),
        "student-edition": ("write the course without solutions, to hand out",
                            _in("labkit.publish.student_edition")),
        "site": ("write the course as a static site, with a bench on each lab's page; or serve it",
                 _in("labkit.publish.site.command")),
        "gradescope": ("write the autograder zip of a lab for Gradescope",
                       _in("labkit.publish.gradescope")),
        "classroom50": ("write the autograder of a lab for Classroom 50",
                        _in("labkit.publish.classroom50")),
    },
    "For maintainers": {
        "check": ("run the gates, all or some", _in("labkit.gates.command")),
        "soak": ("run the randomised tests for long, and all mutants", _in("labkit.gates.soak")),
        "matrix": ("write the ladders and the kill matrices into their pages", _here(_matrix)),
    },
}  # fmt: skip
_EXAMPLES = {
    "For students": "hint --lab 03 --task 2",
    "For instructors": "grade submissions.zip --lab 03 --csv grades.csv",
    "For maintainers": "check marks readmes",
}
# What follows these verbs is read by another parser.
_PASSED_ON = ("demo", "serve")
