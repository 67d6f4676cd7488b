"""What tests of grading share for a session: what workers import, and what can be had here."""

import os
import shutil
import sys

import pytest
from walled import Grader, give_up

from labkit.errors import UsageError
from labkit.isolation.sandbox import WorkerRoot, choose_mode


@pytest.fixture(scope="session")
def worker_root():
    """The folder that all workers import from."""
    with WorkerRoot() as root:
        yield root


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
def mode(why_not):
    """A mode for tests that are about something else: `sandbox` where it works, else `trust`."""
    return "trust" if why_not["sandbox"] else "sandbox"


@pytest.fixture(scope="session", params=["sandbox", "container"])
def walled(request, need):
    """Each mode that walls submissions in."""
    return need(request.param)


@pytest.fixture(scope="session")
def trusting(worker_root):
    """A grader without walls, for tests of what does not depend on them."""
    return Grader("trust", worker_root)
