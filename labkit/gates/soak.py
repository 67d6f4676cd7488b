"""`make soak`: many more examples of the randomised tests, other seeds, all mutants and recordings.

`make test` has a sample of each test, and `.ci/run` a sample of the mutants and the recordings, so
nothing runs only here.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from labkit.course.lab import find_labs
from labkit.errors import UsageError


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit soak`."""
    add = command.add_argument
    add("parts", nargs="*", metavar="PART",
        help="only these: labs, mutants, recordings (where `make show` opens), tests, or files "
        "and folders in tests/")  # fmt: skip
    add(
        "--seeds",
        type=int,
        default=20,
        metavar="N",
        help="number of seeds of the labs (default 20)",
    )


def run(args: argparse.Namespace, root: Path) -> int:
    """Run the named parts, or all; return 0, or the worst exit code.

    Raises:
        UsageError: a name is unknown.
    """
    parts = args.parts or ["tests", "labs", "mutants", "recordings"]
    files = [part for part in parts if part not in ("labs", "mutants", "recordings")]
    for name in files:
        path = (root / name.partition("::")[0]).resolve()
        if not (path.exists() and path.is_relative_to((root / "tests").resolve())):
            raise UsageError(
                f"there is no {name!r} to soak; name labs, mutants, recordings, tests, or paths "
                "in tests/"
            )
    codes = []
    if files:
        print(f"Many more examples of {' '.join(files)}", flush=True)
        codes.append(_tests(root, *files, "-p", "pytest_timeout", "--timeout=3600").returncode)
    if "labs" in parts:
        codes.append(_labs(root, args.seeds))
    if "mutants" in parts:
        command = [sys.executable, "tests/mutants/run.py", "--jobs", str(os.cpu_count() or 1)]
        codes.append(subprocess.run(command, cwd=root, check=False).returncode)
        command = [sys.executable, "tests/solutions/solution_mutants.py"]
        codes.append(subprocess.run(command, cwd=root, check=False).returncode)
    if "recordings" in parts:
        command = [sys.executable, "tests/recording/show_all.py"]
        codes.append(subprocess.run(command, cwd=root, check=False).returncode)
    return max(codes)


def _labs(root: Path, seeds: int) -> int:
    """Run the labs' tests on the references with other seeds; print the failures."""
    labs, worst = [str(lab.path) for lab in find_labs(root)], 0
    for seed in range(1, seeds + 1):
        print(f"All labs with seed {seed} of {seeds}", flush=True)
        done = _tests(root, *labs, "--lab-seed", str(seed), capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stdout + done.stderr)
        worst = max(worst, done.returncode)
    return worst


def _tests(root: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run tests in their long versions, on the references."""
    env = {**os.environ, "LAB_IMPL": "solution", "LAB_PARTS": "reference", "SOAK": "1"}
    command = [sys.executable, "-m", "pytest", "-q", *words]
    return subprocess.run(command, cwd=root, env=env, check=False, **options)
