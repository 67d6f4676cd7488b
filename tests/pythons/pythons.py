"""Run labs and tests on Debian's own Pythons, each in a chroot: `make pythons`.

The tree under test is a clone of this repository with its changed files. `README.md` gets a row for
each system on which everything passed; what failed or was skipped keeps its row, and its date.
"""

import argparse
import datetime
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chroot import BROWSER, HOME, UNSHARE, Chroot, Unavailable
from mirror import find_mirror

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("stable", "unstable", "oldstable")
BEGIN, END = "<!-- begin systems -->", "<!-- end systems -->"
HEAD = "| system | Python | tried on | `make test` |\n|---|---|---|---|"
# The rooms, and the words of reports: these know the syntax that is newer than the oldest Python.
ROOMS = "tests/engine tests/server tests/grading tests/test_report_words.py"
NO_BROWSER = "--ignore-glob=tests/server/test_page*.py --ignore=tests/grading/test_html.py"
# What a student has who installed pytest, tokenizers and rich; and what `make test` has.
ENVIRONMENTS = """set -e
if ! [ -e ../bare/whole ]; then
    python3 -m venv --clear ../bare
    ../bare/bin/pip install -q --require-hashes -r requirements/core.txt
    ../bare/bin/pip uninstall -qy jinja2 markupsafe
    touch ../bare/whole
fi
python3 -I labkit/student/bootstrap.py dev
"""


@dataclass(frozen=True)
class Step:
    """One command in the chroot, run at the root of the tree.

    Attributes:
        name: as it is shown.
        script: for a shell.
        code: the exit code that is right.
        score: what each lab has to score, if the command shows scores.
    """

    name: str
    script: str
    code: int = 0
    score: int | None = None

    def complaint(self, code: int, output: str, labs: int) -> str:
        """Return what is wrong with an exit code and an output, or nothing."""
        if code != self.code:
            return f"exit code {code}, not {self.code}"
        scores = re.findall(r"^\d\d .* (\d+)/100 ", output, re.MULTILINE)
        if self.score is not None and scores != [str(self.score)] * labs:
            return f"the labs score {', '.join(scores)}; each of {labs} has to score {self.score}"
        return ""


def steps(quick: bool) -> list[Step]:
    """Return what runs on each system."""
    labs = [
        Step("environments", ENVIRONMENTS),
        Step("bare pytest, starters", "LAB_IMPL=starter ~/bare/bin/pytest -q", 1, 0),
        Step("bare pytest, references", "~/bare/bin/pytest -q", 0, 100),
    ]
    if quick:
        return [*labs, Step(f"make test {ROOMS}", f"make test ARGS='{ROOMS} {NO_BROWSER}'")]
    gates = Step("gates", ".venv/bin/python -P -m labkit check solution starter")
    return [*labs, gates, Step("make test", "make test")]


def main() -> int:
    """Run what the command line asks for; return 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="make pythons",
        description="Run labs and tests on Debian's own Pythons, each in a chroot that is kept in "
        "the user's cache. What cannot run here is skipped, with a line that begins with SKIPPED.",
        epilog="README.md gets the rows of the systems on which everything passed, unless --quick.",
    )
    add = parser.add_argument
    add("--suite", action="append", choices=SUITES,
        help="a release of Debian; may be repeated (default: stable and unstable)")  # fmt: skip
    add("--quick", action="store_true",
        help=f"labs, and of the tests only {ROOMS} without those in a browser")  # fmt: skip
    options = parser.parse_args()
    # Whatever a shell starts in the background ignores SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if reason := what_is_missing():
        print(f"SKIPPED make pythons: {reason}")
        return 0
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    failed = 0
    for suite in options.suite or SUITES[:2]:
        folder = cache / "mini-vllm-labs/pythons" / suite
        try:
            with only_user(folder):
                failed += not try_system(suite, folder, options.quick)
        except Unavailable as error:
            print(f"SKIPPED make pythons, {suite}: {error}", flush=True)
    return min(failed, 1)


def what_is_missing() -> str:
    """Return why no chroot can be made or entered here, or nothing."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    if os.geteuid() != 0:
        return "it needs root"
    for program, package in (("debootstrap",) * 2, (UNSHARE[0], "util-linux"), ("git",) * 2):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt install {package}"
    done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return f"no namespace can be made here: {done.stderr.strip()}" if done.returncode else ""


@contextmanager
def only_user(folder: Path) -> Iterator[None]:
    """Wait until no other process uses a chroot."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def try_system(suite: str, folder: Path, quick: bool) -> bool:
    """Run every step on a system, and write its row; return whether all passed.

    Raises:
        Unavailable: there is no such system here, and none can be made.
    """
    logs = folder.with_name(f"{suite}-logs")
    chroot = Chroot(folder, logs / "system.log")
    prepare(chroot, suite, not quick)
    version = chroot.call("python3 -c 'import platform; print(platform.python_version())'")[1]
    system, python = chroot.system, version.strip()
    put_tree(folder / HOME.relative_to("/"), python)
    failed, output = False, ""
    labs = len(list(ROOT.glob("phase-*/labs/lab-*/course/lab.toml")))
    for step in steps(quick):
        chroot.log = logs / f"{re.sub(r'[^a-z]+', '-', step.name)}.log"
        begun = time.monotonic()
        code, output = chroot.call(f"cd ~/repo\n{step.script}")
        complaint = step.complaint(code, output, labs)
        say(f"{system} (Python {python})", step.name, begun, "FAIL" if complaint else "ok")
        if complaint:
            failed = True
            print("\n".join(f"    | {line}" for line in output.splitlines()[-25:]))
            print(f"    {complaint}; the whole log: {chroot.log}", flush=True)
            if step.script is ENVIRONMENTS:
                break
    if not (failed or quick):
        counted = re.findall(r"(\d+ passed.*?)(?:, \d+ warnings?)? in [\d.]+s", output)[-1]
        page, date = ROOT / "README.md", datetime.date.today().isoformat()
        page.write_text(with_row(page.read_text("utf-8"), (system, python, date, counted)), "utf-8")
        print(f"README.md: wrote the row of {system}", flush=True)
    return not failed


def prepare(chroot: Chroot, suite: str, browser: bool) -> None:
    """Make a chroot, or bring one up to date; without a network, an old one will do.

    Raises:
        Unavailable: there is none, or it lacks the browser, and no mirror gives it.
    """
    begun = time.monotonic()
    try:
        mirror, code = find_mirror(suite)
        if not (chroot.is_whole and chroot.code == code):
            chroot.make(mirror, code)
            say(f"Debian {suite}", "made with debootstrap", begun, "ok")
            begun = time.monotonic()
        chroot.refresh(mirror, BROWSER if browser else ())
        say(chroot.system, "packages of today", begun, "ok")
    except Unavailable as error:
        if not (chroot.is_whole and (chroot.has_browser or not browser)):
            raise
        say(chroot.system, f"packages of last time: {error}", begun, "ok")


def put_tree(home: Path, python: str) -> None:
    """Put the tree into a chroot; keep its environments if they are of these locks and this Python.

    Args:
        home: the home folder there.
        python: the version of Python there.
    """
    tree, new, mark = home / "repo", home / "repo.new", home / "environments"
    copy_tree(new)
    locks = [path.read_bytes() for path in sorted((new / "requirements").glob("*.txt"))]
    digest = hashlib.sha256(b"".join([python.encode(), *locks])).hexdigest()
    kept = mark.exists() and mark.read_text() == digest
    if kept and (tree / ".venv").exists():
        (tree / ".venv").rename(new / ".venv")
    shutil.rmtree(tree, ignore_errors=True)
    new.rename(tree)
    if not kept:
        shutil.rmtree(home / "bare", ignore_errors=True)
        mark.write_text(digest)


def copy_tree(folder: Path) -> None:
    """Clone this repository, with its changed and its new files as they are now.

    Each starter is the pristine one, as the scores of starters are known.
    """
    shutil.rmtree(folder, ignore_errors=True)
    git = ["git", "-c", f"safe.directory={ROOT}"]
    subprocess.run([*git, "clone", "-q", "--no-hardlinks", ROOT, folder], check=True)
    command = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
        else:
            target.unlink(missing_ok=True)
    for pristine in folder.glob("phase-*/labs/*/course/starter.py.orig"):
        shutil.copy2(pristine, pristine.parent.with_name("starter.py"))


def say(system: str, step: str, begun: float, outcome: str) -> None:
    """Print how a step ended, and its seconds."""
    print(f"{system:<27}  {step:<50} {outcome:<4} {time.monotonic() - begun:4.0f} s", flush=True)


def with_row(text: str, row: tuple[str, ...]) -> str:
    """Return a page with a row of the table of systems written afresh; the others stay.

    Args:
        text: the page.
        row: the cells; the first is the system.
    """
    if BEGIN not in text or END not in text:
        sys.exit(f"README.md has no lines {BEGIN} and {END} to write between")
    head, _, rest = text.partition(BEGIN)
    table, _, tail = rest.partition(END)
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines}
    rows[row[0]] = "| " + " | ".join(row) + " |"
    body = "\n".join(rows[name] for name in sorted(rows))
    return f"{head}{BEGIN}\n\n{HEAD}\n{body}\n\n{END}{tail}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
