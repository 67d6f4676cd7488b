"""Fixtures: a copy of the tiny repository, and ways to run things in it."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from labkit.course.lab import find_labs
from labkit.course.matrix import write
from labkit.gates import runs

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
    """Run pytest in the tiny repository as `LAB_IMPL=starter pytest` does, but start faster."""

    def run(implementation, *args, cwd=tiny, **env):
        if implementation is not None:
            env["LAB_IMPL"] = implementation
        target = [] if any("lab-90" in arg for arg in args) else ["phase-90-tiny/labs/lab-90-pairs"]
        arguments = ["-p", "no:cacheprovider", *target, *args]
        code, printed = runs.run_pytest(arguments, cwd, {"PATH": os.environ["PATH"], **env})
        return SimpleNamespace(returncode=code, stdout=printed)

    return run
