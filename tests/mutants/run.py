"""Mutants: small faults put into the product one at a time, to see whether the tests notice.

`mutant.py` tells what a mutant is. Its tests run in a scratch copy of the tree, with the
interpreter that runs this script. Two suites are compared so:

    python tests/mutants/run.py --root OLD --json old.json
    python tests/mutants/run.py --against old.json

A test that fails for another reason kills, too: on a busy machine, look at what killed whom.
"""

import argparse
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from mutant import ROOMS, Mutant, read_room

ROOT = Path(__file__).resolve().parents[2]
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE", "--timeout=60")
LEFT_OUT = (".git", ".venv", ".hypothesis", "__pycache__", ".*_cache")
# Python takes a compiled file for fresh by its size and whole seconds, so each edit gets a second.
SECONDS = itertools.count(int(time.time()))


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed, survived or not applicable; and by which test, or why."""

    room: str
    outcome: str
    why: str = ""
    file: str = ""
    seconds: float = 0.0


def run_tests(root: Path, tests: list[str], limit: float) -> str:
    """Run tests in a copy; return the one that failed, or nothing."""
    process = subprocess.Popen(
        [sys.executable, *PYTEST, *tests],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"timeout of {limit:g} s in {' '.join(tests)}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", output, re.MULTILINE)
    if process.returncode == 0:
        return ""
    return failed[1] if failed else f"exit code {process.returncode} of {' '.join(tests)}"


def write(path: Path, text: str) -> None:
    """Write a source file so that Python compiles it again."""
    path.write_text(text, encoding="utf-8")
    second = next(SECONDS)
    os.utime(path, (second, second))


def killer_in(root: Path, test: str, mutant: Mutant, limit: float) -> str:
    """Return the test that kills; one that nobody named has to do it twice, for it may be flaky."""
    killer = run_tests(root, [test], limit)
    if "::" not in killer or killer.partition("::")[0] in mutant.tests:
        return killer
    return run_tests(root, [killer], limit) or run_tests(root, [test], limit)


def judge(mutant: Mutant, root: Path, limit: float) -> Result:
    """Put a mutant into a copy, run its tests, take it out again."""
    edit, start = mutant.edit(root), time.monotonic()
    if isinstance(edit, str):
        return Result(mutant.room, "not applicable", edit)
    path, text = edit
    original = path.read_text(encoding="utf-8")
    write(path, text)
    try:
        runs = (killer_in(root, test, mutant, limit) for test in mutant.tests_in(root))
        killer = next(filter(None, runs), "")
    finally:
        write(path, original)
    seconds = round(time.monotonic() - start, 1)
    outcome = "killed" if killer else "survived"
    return Result(mutant.room, outcome, killer, str(path.relative_to(root)), seconds)


def copy(root: Path, folder: Path) -> Path:
    """Copy a tree, and make sure that Python imports what is in the copy."""
    shutil.copytree(root, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    code = "import labkit, mini_vllm; print(labkit.__file__, mini_vllm.__file__, sep='\\n')"
    env = {**os.environ, "PYTHONPATH": str(folder)}
    told = subprocess.check_output([sys.executable, "-c", code], cwd="/", env=env, text=True)
    assert all(Path(file).is_relative_to(folder) for file in told.splitlines()), told
    return folder


def report(results: dict[str, Result], against: Path | None) -> int:
    """Print the counts and what to fix; return the exit code."""
    for outcome in ("killed", "survived", "not applicable"):
        names = [name for name, result in results.items() if result.outcome == outcome]
        print(f"{len(names)} {outcome}", *(names if outcome != "killed" else ()), sep="\n  ")
    if against is not None:
        other = json.loads(against.read_text(encoding="utf-8"))
        dead = [name for name in results if other.get(name, {}).get("outcome") == "killed"]
        lost = [name for name in dead if results[name].outcome != "killed"]
        print(f"{len(lost)} killed in {against} and not here", *lost, sep="\n  ")
    return int(any(result.outcome != "killed" for result in results.values()))


def run(mutants: list[Mutant], options: argparse.Namespace, scratch: Path) -> dict[str, Result]:
    """Judge the mutants in scratch copies; tell and save each result at once."""
    results: dict[str, Result] = {}
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for number in range(options.jobs):
        copies.put(copy(options.root.resolve(), scratch / f"copy{number}"))
    first = scratch / "copy0"
    tests = sorted({test for mutant in mutants for test in mutant.tests_in(first)})
    if not options.skip_check and (failed := run_tests(first, tests, 20 * options.limit)):
        sys.exit(f"the code without a mutant fails {failed}")

    def work(mutant: Mutant) -> Result:
        folder = copies.get()
        try:
            return judge(mutant, folder, options.limit)
        finally:
            copies.put(folder)

    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, result in zip(mutants, pool.map(work, mutants), strict=True):
            results[mutant.name] = result
            print(f"{mutant.room} {mutant.name}: {result.outcome} {result.why}", end="  ")
            print(f"({result.file} {result.seconds} s)", flush=True)
            if options.json:
                known = json.loads(options.json.read_text()) if options.json.exists() else {}
                known[mutant.name] = asdict(result)
                options.json.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return results


def main() -> int:
    """Run what the command line asks for; return 0 if every mutant was killed."""
    parser = argparse.ArgumentParser(
        description="Put small faults into the product and see whether the tests notice.",
        epilog="The exit code is 1 if a mutant survived or could not be put in.",
    )
    add = parser.add_argument
    add("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)} (default: all)")
    add("--only", action="append", metavar="NAME", help="only this mutant; may be given again")
    add("--first", type=int, metavar="N", help="only the first N of each room: 3 of each are quick")
    add("--root", type=Path, default=ROOT, metavar="DIR", help="test another tree")
    add("--jobs", type=int, default=1, metavar="N", help="copies that work at once (default: 1)")
    add(
        "--limit", type=float, default=300, metavar="S", help="seconds of a test run (default: 300)"
    )
    add("--skip-check", action="store_true", help="do not run the tests without a mutant first")
    add("--dry", action="store_true", help="only list the mutants that cannot be put in")
    add("--json", type=Path, metavar="FILE", help="add the results to this file")
    add("--against", type=Path, metavar="FILE", help="list what died there and survived here")
    options = parser.parse_args()
    if unknown := {*options.rooms} - {*ROOMS}:
        parser.error(f"there is no room {min(unknown)}; there are {', '.join(ROOMS)}")
    if options.first is not None and options.first < 1:
        parser.error(f"--first is {options.first}, but must be at least 1")
    rooms = [read_room(room) for room in options.rooms or ROOMS]
    mutants = [mutant for room in rooms for mutant in itertools.islice(room, options.first)]
    mutants = [mutant for mutant in mutants if mutant.name in (options.only or [mutant.name])]
    if options.dry:
        edits = {mutant.name: mutant.edit(options.root.resolve()) for mutant in mutants}
        bad = [f"{name}: {edit}" for name, edit in edits.items() if isinstance(edit, str)]
        print(f"{len(bad)} of {len(mutants)} cannot be put in", *bad, sep="\n  ")
        return int(bool(bad))
    # Whatever a shell starts in the background ignores SIGINT, and so would the tests of Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        return report(run(mutants, options, Path(scratch).resolve()), options.against)


if __name__ == "__main__":
    sys.exit(main())
