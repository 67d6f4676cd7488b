"""The verbs of `python -m labkit`. Each returns an exit code; mistakes of the user get one line."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from labkit.course.lab import ROOT, Lab, find_labs, pick_lab
from labkit.errors import LabkitError, UsageError
from labkit.grading.options import add_options
from labkit.running.loader import NO_REFERENCE
from labkit.student.progress import Progress, next_unfinished


def main(argv: list[str], root: Path = ROOT) -> int:
    """Run one verb. Returns 0, 1 (tests or gates failed), 2 (usage), or 3 (grading broke off)."""
    args = _parser().parse_args(argv)
    verb: Callable[[argparse.Namespace, Path], int] = args.verb
    try:
        return verb(args, root)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m labkit", description="Run, check, grade labs.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(name: str, verb: Callable[[argparse.Namespace, Path], int], help: str) -> None:
        command = verbs.add_parser(name, help=help, description=help)
        command.set_defaults(verb=verb)
        if name in ("lab", "watch", "hint", "solution", "reset", "bug"):
            command.add_argument("--lab", default="", metavar="N", help="number of the lab, 03")
        if name in ("lab", "watch", "hint"):
            command.add_argument("--task", default="", metavar="T", help="number of a task, 2")
        if name == "lab":
            command.add_argument("--impl", default="starter", help="as LAB_IMPL (default: starter)")
        if name == "bug":
            command.add_argument("--bug", default="", metavar="NAME", help="name of a bug")
        if name == "check":
            command.add_argument("gates", nargs="*", metavar="GATE", help="only these gates")
        if name == "grade":
            add_options(command)
        if name == "soak":
            command.add_argument("--seeds", type=int, default=20, help="seeds per lab (default 20)")

    add("lab", _lab, "grade a starter.py: of the next unfinished lab, or of --lab")
    add("progress", _progress, "show the board of all labs")
    add("hint", _hint, "print the next hint for a task")
    add("solution", _solution, "print the reference of a lab that was passed")
    add("watch", _watch, "run a lab again whenever its starter.py is saved")
    add("reset", _reset, "put the pristine starter.py back, keeping a backup")
    add("bug", _bug, "list a lab's known bugs, or run its tests on one")
    add("grade", _grade, "grade what was handed in, behind walls: one file or a cohort")
    add("check", _check, "run the gates")
    add("soak", _soak, "run the randomised tests for long")
    add("matrix", _matrix, "write the generated parts of the phase READMEs")
    return parser


def _chosen(args: argparse.Namespace, root: Path, *, needed: bool = False) -> Lab:
    labs = find_labs(root)
    if args.lab:
        return pick_lab(labs, args.lab)
    if needed:
        raise UsageError(f"name a lab, for example N={labs[0].number}")
    lab = next_unfinished(labs, Progress(root))
    if lab is None:
        print("Every lab passes. Name one to run it again, for example N=03.")
        raise SystemExit(0)
    return lab


def _task(args: argparse.Namespace, lab: Lab) -> int:
    numbers = [task.number for task in lab.tasks]
    if args.task.isdigit() and int(args.task) in numbers:
        return int(args.task)
    have = ", ".join(f"T={number}" for number in numbers)
    raise UsageError(f"{lab.label} has no task {args.task!r}; it has {have}")


def _lab(args: argparse.Namespace, root: Path) -> int:
    lab = _chosen(args, root)
    return run_pytest(lab, root, args.impl, str(_task(args, lab)) if args.task else "")


def run_pytest(lab: Lab, root: Path, implementation: str, task: str = "") -> int:
    """Run one lab in this process, as the raw pytest command would; return pytest's exit code."""
    import pytest

    os.environ["LAB_IMPL"] = implementation
    os.chdir(root)
    options = ["--lab-task", task] if task else []
    return int(pytest.main([str(lab.path), "-q", "-p", "no:cacheprovider", *options]))


def _progress(args: argparse.Namespace, root: Path) -> int:
    from labkit.student.board import board

    print(board(find_labs(root), Progress(root), colour=sys.stdout.isatty()))
    return 0


def _hint(args: argparse.Namespace, root: Path) -> int:
    from rich.console import Console
    from rich.markdown import Markdown

    from labkit.course.hints import read_hints

    lab = _chosen(args, root, needed=True)
    task = _task(args, lab)
    hints = read_hints(lab)[task]
    level = Progress(root).next_hint(lab, task)
    hint = hints[level - 1]
    console = Console(width=88 if not sys.stdout.isatty() else None)
    console.print(f"{lab.label} task {task}, hint {level} of {len(hints)}: {hint.symptom}\n")
    console.print(Markdown(hint.text))
    if level < len(hints):
        console.print("\nThe same command goes one level deeper.")
    else:
        console.print("\nThis is the last hint of this task.")
    return 0


def _solution(args: argparse.Namespace, root: Path) -> int:
    from rich.console import Console
    from rich.syntax import Syntax

    lab = _chosen(args, root, needed=True)
    if not Progress(root).record(lab).solved:
        print(
            f"The reference of {lab.label} is shown once your own passes: make lab N={lab.number}"
        )
        print(f"Stuck? make hint N={lab.number} T=1")
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


def _watch(args: argparse.Namespace, root: Path) -> int:
    import subprocess

    from watchfiles import watch

    lab = _chosen(args, root)
    task = ["--task", str(_task(args, lab))] if args.task else []
    command = [sys.executable, "-m", "labkit", "lab", "--lab", lab.number, *task]
    print(f"Watching {lab.starter.relative_to(root)}; Ctrl-C ends.", flush=True)
    subprocess.run(command, cwd=root, check=False)
    # Editors save by replacing the file, so the folder is watched, not the file.
    for changes in watch(lab.path, raise_interrupt=True):
        if any(Path(path) == lab.starter for _, path in changes):
            print(f"\nSaved; running {lab.label} again.", flush=True)
            subprocess.run(command, cwd=root, check=False)
    return 0


def _reset(args: argparse.Namespace, root: Path) -> int:
    import shutil
    import time

    lab = _chosen(args, root, needed=True)
    pristine = lab.pristine_starter.read_bytes()
    if lab.starter.exists() and lab.starter.read_bytes() == pristine:
        print(f"{lab.starter.relative_to(root)} is already as it was handed out.")
        return 0
    if lab.starter.exists():
        answer = _ask(f"Replace {lab.starter.relative_to(root)} by the fresh one? [y/N] ")
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


def _bug(args: argparse.Namespace, root: Path) -> int:
    lab = _chosen(args, root, needed=True)
    if args.bug:
        return run_pytest(lab, root, f"bug:{args.bug}")
    for bug in lab.bugs:
        print(f"{bug.name:<22} {bug.title}")
    print(f"\nmake bug N={lab.number} B={lab.bugs[0].name}   runs the lab's tests on one")
    return 0


def _check(args: argparse.Namespace, root: Path) -> int:
    from labkit.gates import GATES

    unknown = [name for name in args.gates if name not in GATES]
    if unknown:
        raise UsageError(f"there is no gate {unknown[0]!r}; there is {', '.join(GATES)}")
    failed = 0
    for name in args.gates or GATES:
        print(f"{name:<12}", end="", flush=True)
        findings = GATES[name](root)
        bad = [finding for finding in findings if not finding.is_note]
        print("ok" if not bad else f"{len(bad)} findings", flush=True)
        for finding in findings:
            print(f"  {'note' if finding.is_note else 'FAIL'}  {finding}", flush=True)
        failed += len(bad)
    print(f"\n{failed} findings" if failed else "\nEvery gate is ok.")
    return 1 if failed else 0


def _grade(args: argparse.Namespace, root: Path) -> int:
    from labkit.grading.command import run

    return run(args, root)


def _soak(args: argparse.Namespace, root: Path) -> int:
    import subprocess

    env = {**os.environ, "LAB_IMPL": "solution", "LAB_PARTS": "reference", "SOAK": "1"}
    pytest = [sys.executable, "-m", "pytest", "-q"]
    print("The property tests of tests/, with many more examples", flush=True)
    worst = subprocess.run([*pytest, "tests", "--timeout=3600"], cwd=root, env=env).returncode
    labs = [str(lab.path) for lab in find_labs(root)]
    for seed in range(1, args.seeds + 1):
        print(f"All labs with seed {seed} of {args.seeds}", flush=True)
        command = [*pytest, *labs, "--lab-seed", str(seed)]
        done = subprocess.run(
            command, cwd=root, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(done.stdout + done.stderr)
        worst = max(worst, done.returncode)
    return int(worst)


def _matrix(args: argparse.Namespace, root: Path) -> int:
    from labkit.course.matrix import write

    changed = write(root)
    for path in changed:
        print(f"wrote {path.relative_to(root)}")
    if not changed:
        print("Ladder and kill matrix are up to date.")
    return 0
