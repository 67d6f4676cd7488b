"""What tests of grading share for a session: what starts workers, and what can be had here."""

import os
import shutil
import sys
from contextlib import ExitStack
from functools import cache

import pytest
from tiny_cohort import assignments, plain
from walled import IN_CI, Grader, give_up

from labkit.errors import UsageError
from labkit.grading.cohort import grade_all
from labkit.grading.grader import grade
from labkit.isolation.mode import choose_mode
from labkit.isolation.sandbox import Sandbox


def pytest_configure(config):
    """Let this pytest know the marks of hidden tests, which it imports and does not run."""
    for mark in ("varies(name): of hidden tests", "visibility(when): of hidden tests"):
        config.addinivalue_line("markers", mark)


@pytest.fixture(scope="session")
def sandbox_in():
    """What all tests start the workers of a mode from: `sandbox_in("trust")`."""
    with ExitStack() as held:
        yield cache(lambda mode: held.enter_context(Sandbox(mode)))


@pytest.fixture(scope="session")
def why_not(tmp_path_factory):
    """By mode, why it does not work on this machine, or None; found out once."""
    bwrap = shutil.which("bwrap")
    if bwrap is not None:
        # A copy, so that a package manager at work beside the tests disturbs none of them.
        folder = tmp_path_factory.mktemp("bin")
        shutil.copy(bwrap, folder)
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    reasons = {"trust": None}
    for mode in ("sandbox", "container"):
        try:
            choose_mode(trust=False, container=mode == "container")
            reasons[mode] = None if sys.platform == "linux" else f"{mode} mode needs Linux"
        except UsageError as error:
            reasons[mode] = str(error)
    return reasons


@pytest.fixture(scope="session")
def need(why_not):
    """Give up a test that needs a mode which does not work here: `need("sandbox")`."""

    def check(mode):
        if why_not[mode] is not None:
            give_up(why_not[mode])
        return mode

    return check


@pytest.fixture(scope="session")
def mode(why_not, need):
    """A mode for tests that are about something else: `sandbox` where it works, else `trust`."""
    return "trust" if why_not["sandbox"] and not IN_CI else need("sandbox")


@pytest.fixture(scope="session", params=["sandbox", "container"])
def walled(request, need):
    """Each mode that walls submissions in."""
    return need(request.param)


@pytest.fixture(scope="session")
def trusting(sandbox_in):
    """A grader without walls, for tests of what does not depend on them."""
    return Grader(sandbox_in("trust"))


@pytest.fixture
def tiny_assignments(tiny):
    """The assignments of a tiny repository, whose tests count and obey: see `tiny_cohort`."""
    return assignments(tiny)


@pytest.fixture
def run(mode):
    """Grade a cohort: `run(work, assignments, jobs=2, ledger=path)`; grades are plain data."""

    def run(work, assignments, jobs=1, **options):
        return plain(grade_all(work, assignments, mode=mode, jobs=jobs, **options))

    return run


@pytest.fixture
def alone(mode, sandbox_in):
    """Grade one by one in this process, to compare with: `alone(work, assignments)`."""

    def alone(work, assignments):
        sandbox = sandbox_in(mode)
        return plain(grade(one, assignments[one.lab], sandbox) for one in work)

    return alone
