"""Debian's Chromium for tests of pages: without a window, and silent about all but the page."""

import atexit
import functools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def open_browser() -> Iterator:
    """Yield a Selenium driver that logs the network and the console: one for the whole run.

    Without a browser the test is skipped, or fails where nothing may be missing: in CI.
    """
    missing = [tool for tool in ("chromium", "chromedriver") if shutil.which(tool) is None]
    if missing:
        _give_up(f"{', '.join(missing)} not installed: apt install chromium chromium-driver")
    try:
        import selenium  # noqa: F401
    except ImportError:
        _give_up("selenium is not installed: make check installs it")
    driver = _driver()
    yield driver
    driver.get("about:blank")


def _give_up(reason):
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@functools.cache
def _driver():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--window-size=1200,900", "--hide-scrollbars", "--lang=en"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        # Chromium's sandbox refuses to run as root.
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    # With the driver's path Selenium downloads none.
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    atexit.register(driver.quit)
    return driver
