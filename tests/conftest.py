"""Fixtures: a copy of the tiny repository, and ways to run things in it."""

import gc
import importlib.metadata
import os
import re
import shutil
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from labkit.course.lab import find_labs
from labkit.course.matrix import write
from labkit.gates.lab_runs import runs

HERE = Path(__file__).resolve().parent


def is_installed(requirement):
    """Return whether there is some version of what a line of pyproject.toml asks for."""
    try:
        return bool(importlib.metadata.version(re.match(r"[\w.-]+", requirement)[0]))
    except importlib.metadata.PackageNotFoundError:
        return False


def missing_packages():
    """Return what these tests need and do not find; a lab needs much less."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [needs for name, needs in project["optional-dependencies"].items()
              if name not in ("oracles", "site")]  # fmt: skip
    needs = [need for group in (project["dependencies"], *extras) for need in group]
    return [need for need in needs if project["name"] not in need and not is_installed(need)]


MISSING = missing_packages()
# The overlay has hidden tests of labs; the grader runs them, not pytest.
collect_ignore = ["tiny_repo", "grading/overlay"]
if not os.environ.get("ORACLES"):
    # They need peers that only `make oracles` installs.
    collect_ignore.append("oracles")
if MISSING:
    collect_ignore_glob = ["*"]
else:
    from hypothesis import settings

    # The same examples in each run: its result depends on the code alone. `soak` draws others.
    settings.register_profile(
        "sample", max_examples=50, database=None, deadline=None, derandomize=True
    )
    settings.register_profile("soak", max_examples=20_000, database=None, deadline=None)
    settings.load_profile("soak" if os.environ.get("SOAK") else "sample")


# Those that take longest begin first, so that no process is left with one at the end.
FIRST = ("test_tool_parsers.py", "test_page.py", "test_benchmarks.py", "test_show.py")
# They share a browser, which takes seconds to start.
IN_BROWSER = ("tests/server/test_page", "tests/grading/test_html.py", "tests/grading/test_feedback")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each file to one process, and all that need the browser to the same one."""
    from xdist.scheduler import LoadScopeScheduling

    if config.getoption("dist") != "loadscope":
        return None
    scheduler = LoadScopeScheduling(config, log)
    split = scheduler._split_scope
    scheduler._split_scope = lambda test: "browser" if test.startswith(IN_BROWSER) else split(test)
    return scheduler


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Collect without the garbage collector: nothing is garbage until all tests are there."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items):
    """Begin with the tests of the files that take longest."""
    items.sort(key=lambda item: item.path.name not in FIRST)


def pytest_collection_finish():
    """Spare the garbage collector thousands of tests, which stay until the end."""
    gc.freeze()


class LeftOut(pytest.Module):
    """A file of tests that is not even imported: it was named, so no pattern leaves it out."""

    def collect(self):
        return []


def pytest_pycollect_makemodule(module_path, parent):
    """Leave out also the files that a command line names."""
    return LeftOut.from_parent(parent, path=module_path) if MISSING else None


def pytest_report_collectionfinish():
    """Say in a line why these tests are left out, if they are."""
    if not MISSING:
        return None
    more = f" and {len(MISSING) - 1} more packages" if MISSING[1:] else ""
    return f"tests/ is left out: it needs {MISSING[0]}{more}; `make test` installs and runs all"


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
