"""A built site behind a server, and a browser with nothing of other tests in it.

What starts a Python takes seconds, so the tests of a class share a page, and those of a process an
interpreter in node.
"""

import os
import shutil
from pathlib import Path

import pytest
from bench_page import Bench, serving
from browser import open_browser
from interpreter import Interpreter, need_pyodide

from labkit.course.lab import ROOT
from labkit.publish.site import frontend
from labkit.publish.site.bench import write_archives

# A run in a browser begins with a new Python.
SECONDS_A_TEST = 400
BUILDS = "`make site ARGS=--test` builds the site and runs this"


def pytest_collection_modifyitems(items):
    """Give tests in a browser the time that a busy machine takes for them."""
    for item in items:
        if item.path.parent == Path(__file__).parent and "driver" in item.fixturenames:
            item.add_marker(pytest.mark.timeout(SECONDS_A_TEST))


@pytest.fixture(scope="session")
def folder():
    """The folder of the built site."""
    if not os.environ.get("SITE"):
        pytest.skip(BUILDS)
    return Path(os.environ["SITE"])


@pytest.fixture(scope="session")
def is_student(folder):
    """Whether it is the student edition's."""
    return not (folder / "bench" / "solutions.json").exists()


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    """A folder with what a browser's Python unpacks: that of the built site, unless a student's."""
    need_pyodide()
    built = Path(os.environ.get("SITE", ""), "bench")
    if (built / "solutions.json").exists():
        return built
    folder = tmp_path_factory.mktemp("archives")
    write_archives(ROOT, ROOT, folder)
    frontend.run_program(ROOT / "site", "compile.mjs", folder)
    return folder


@pytest.fixture(scope="session")
def python(archives):
    """Python in node, one for all tests; those that spoil it ask for a fresh one."""
    with Interpreter(archives) as python:
        yield python


@pytest.fixture(scope="session")
def chromium(folder):
    with open_browser() as driver:
        yield driver


@pytest.fixture(scope="session")
def url(folder):
    """The address of the site."""
    with serving(folder) as server:
        yield server.url


@pytest.fixture(scope="class")
def downloads(tmp_path_factory):
    """The folder in which downloads arrive."""
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="class")
def driver(chromium, downloads):
    """The browser with a new tab, one for all tests of a class; nothing is kept for later."""
    where = {"behavior": "allow", "downloadPath": str(downloads)}
    chromium.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    home = chromium.current_window_handle
    # A tab of its own is a process of its own: one that crashes takes no other test along.
    chromium.switch_to.new_window("tab")
    try:
        yield chromium
        origin = "/".join(chromium.current_url.split("/")[:3])
        chromium.get("about:blank")
        both = {"origin": origin, "storageTypes": "all"}
        chromium.execute_cdp_cmd("Storage.clearDataForOrigin", both)
    finally:
        chromium.close()
        chromium.switch_to.window(home)


@pytest.fixture(scope="class")
def look(driver):
    """Set the width and the colour scheme of the window."""

    def look(width=1200, height=900, scheme="light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    return look


@pytest.fixture(scope="class")
def bench(driver, url):
    """The bench of lab 03, one page for all tests of a class."""
    return Bench(driver, url, "03")


@pytest.fixture(scope="session")
def checkout(tmp_path_factory):
    """A copy of the course in which the terminal's commands can be run."""
    root = tmp_path_factory.mktemp("checkout") / "course"
    shutil.copytree(
        ROOT, root,
        ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "node_modules", "build", "tests",
                                      ".labkit", ".hypothesis", "benchmarks"),
    )  # fmt: skip
    return root
