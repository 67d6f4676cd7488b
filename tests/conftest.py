"""Fixtures: a copy of the tiny repository, and ways to run things in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from labkit.course.lab import find_labs
from labkit.course.matrix import write

HERE = Path(__file__).resolve().parent
# The overlay has hidden tests of labs; the grader runs them, not pytest.
collect_ignore = ["tiny_repo", "grading/overlay"]
if not os.environ.get("ORACLES"):
    # They need peers that only `make oracles` installs.
    collect_ignore.append("oracles")

settings.register_profile("sample", max_examples=100, database=None, deadline=None)
settings.register_profile("soak", max_examples=20_000, database=None, deadline=None)
settings.load_profile("soak" if os.environ.get("SOAK") else "sample")


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A fresh copy of the tiny repository; nothing of the caller's environment leaks in."""
    for name in ("LAB_IMPL", "LAB_PARTS", "LAB_SEED", "CI"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "repo"
    shutil.copytree(HERE / "tiny_repo", root)
    write(root)
    return root


@pytest.fixture
def tiny_lab(tiny):
    """The one lab of the tiny repository."""
    return find_labs(tiny)[0]


@pytest.fixture
def run_pytest(tiny):
    """Run raw pytest in the tiny repository: `run_pytest("starter", "-q")`; returns the process."""

    def run(implementation, *args, cwd=tiny, **env):
        if implementation is not None:
            env["LAB_IMPL"] = implementation
        target = [] if any("lab-90" in arg for arg in args) else ["phase-90-tiny/labs/lab-90-pairs"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *target, *args],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(HERE.parent), **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
