"""`make site`: the course as a static folder, and `make site ARGS=--serve`, which shows it.

The folder is built beside its place and moved there when it has passed the checks, so the place
never has a half-built site.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from labkit.course.lab import find_labs
from labkit.errors import UsageError
from labkit.publish.packing import write_folder
from labkit.publish.site import frontend
from labkit.publish.site.bench import write_bench
from labkit.publish.site.book import read_book
from labkit.publish.site.checks import check_site, folder_bytes
from labkit.publish.site.generator import generate
from labkit.publish.site.polish import polish
from labkit.publish.site.serve import PORT, serve
from labkit.publish.student_edition import make_edition
from labkit.publish.withheld import check_withheld

NAME = "From Tokens to Text"
STUDENT = "student"
# A file in a built folder, with the digest of its sources. A folder without it is not replaced.
MADE_OF = "made-of.txt"
_FRONT_END = "site"
_SOURCES = (
    "*.md", "LICENSE", "Makefile", "conftest.py", "pyproject.toml", "requirements/*.txt",
    "benchmarks/*", "benchmarks/*/*.py", "labkit/**/*", "mini_vllm/**/*", "phase-*/**/*",
    "upstream/*", "upstream/*/*.py", "tests/mutants/*", f"{_FRONT_END}/*", f"{_FRONT_END}/src/**/*",
)  # fmt: skip
# The tests of a class share a page, and each process has a browser.
_PROCESSES = ("-p", "xdist.plugin", "-n", "auto", "--maxprocesses", "4", "--dist", "loadscope")
# `make test` runs the file that is left out here, which needs no site.
_TESTS = ("tests/site", "--ignore=tests/site/test_smoke.py")
# Not sources of a site: files that students write, and files that programs leave.
_NO_SOURCES = ("starter.py",)
_NO_SUFFIXES = (".bak", ".pyc")


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit site`."""
    add = command.add_argument
    add("--out", type=Path, metavar="FOLDER", help="default: build/site, or build/site-student")
    add("--edition", choices=["full", STUDENT], default="full",
        help="student: without solutions, known bugs and files for instructors")  # fmt: skip
    add("--serve", action="store_true", help="serve it at http://127.0.0.1:8000/, built if needed")
    add("--port", type=int, default=PORT, metavar="N", help=f"for --serve (default {PORT})")
    add("--test", action="store_true", help="build it, and test it in a browser: tests/site")


def run(args: argparse.Namespace, root: Path) -> int:
    """Build the site; serve or test it on request. Return 0, or pytest's exit code.

    Raises:
        UsageError: an option has a wrong value, or a tool is missing.
        LabkitError: the built site has faults, or one of its builders failed.
    """
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port is {args.port}, but must be 0 to 65535")
    if not (root / _FRONT_END).is_dir():
        raise UsageError(f"{root} has no folder {_FRONT_END}: the whole repository makes the site")
    student = args.edition == STUDENT
    out = args.out or root / "build" / (f"site-{STUDENT}" if student else "site")
    made_of = _made_of(root, args.edition)
    if not (args.serve and _read(out / MADE_OF) == made_of):
        build(root, out, made_of, student)
    if args.test:
        return _test(out, root)
    if args.serve:
        serve(out, args.port)
    else:
        own = f"{' --edition student' if student else ''}{f' --out {args.out}' if args.out else ''}"
        print(f"To view it: make site ARGS='--serve{own}'")
    return 0


def build(root: Path, out: Path, made_of: str, student: bool) -> None:
    """Build a site and put it at `out`, in place of an older one.

    Args:
        root: the repository.
        out: the folder to write.
        made_of: the digest of its sources.
        student: whether it is the site of the student edition.

    Raises:
        UsageError: `out` is not an older site, or a tool is missing.
        LabkitError: see `run`.
    """
    if out.exists() and not (out / MADE_OF).exists() and (out.is_file() or any(out.iterdir())):
        raise UsageError(f"{out} is not a site that was built here; name a new folder with --out")
    began = time.monotonic()
    frontend.install(root / _FRONT_END)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        work = Path(scratch)
        course = work / "edition" if student else root
        if student:
            write_folder(course, make_edition(root))
        print("Writing the book ...", flush=True)
        folder = generate(read_book(course), NAME, work)
        print("Building the bench ...", flush=True)
        frontend.run_program(root / _FRONT_END, "build.mjs", folder)
        write_bench(course, root, folder / "bench")
        frontend.run_program(root / _FRONT_END, "compile.mjs", folder / "bench")
        polish(folder)
        (folder / MADE_OF).write_text(made_of, encoding="utf-8")
        frontend.run_program(root / _FRONT_END, "seal.mjs", folder)
        check_site(folder)
        if student:
            _check_withheld(folder, root)
        _put(folder, out, work / "old")
    size, seconds = folder_bytes(out) / 1e6, time.monotonic() - began
    print(f"Wrote {os.path.relpath(out)}: {size:.1f} MB, in {seconds:.0f} s.", flush=True)


def _check_withheld(folder: Path, root: Path) -> None:
    """Check all built files, because the bench is also made from files outside the edition."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = ((path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths)
    check_withheld(files, find_labs(root), "the student's site")


def _put(folder: Path, out: Path, old: Path) -> None:
    """Move a built folder to its place."""
    if out.exists():
        out.rename(old)
    folder.rename(out)


def _made_of(root: Path, edition: str) -> str:
    """Return a digest of all that a site is built from."""
    digest = hashlib.sha256(edition.encode())
    for path in _sources(root):
        data = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{data} {path.relative_to(root)}\n".encode())
    return f"{digest.hexdigest()}\n"


def _sources(root: Path) -> Iterator[Path]:
    paths = {path for pattern in _SOURCES for path in root.glob(pattern)}
    for path in sorted(paths):
        skipped = path.name in _NO_SOURCES or path.suffix in _NO_SUFFIXES
        if path.is_file() and not skipped:
            yield path


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


def _test(out: Path, root: Path) -> int:
    """Run the front end's tests, then those in a browser on a built site; return the exit code."""
    frontend.test(root / _FRONT_END)
    env = {**os.environ, "SITE": str(out.resolve()), "LAB_IMPL": "solution"}
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--durations=10", *_PROCESSES, *_TESTS]
    return subprocess.run(command, cwd=root, env=env, check=False).returncode
