"""Debian's Chromium for tests of pages: without a window, and silent about all but the page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


def needs(*tools):
    """Skip a test where a tool is missing, or fail it where nothing may be missing: in CI."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        _give_up(f"{', '.join(missing)} not installed: apt-get install chromium chromium-driver")


def _give_up(reason):
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def open_browser() -> Iterator:
    """Yield a Selenium driver that logs the network and the console."""
    needs("chromium", "chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        _give_up("selenium is not installed: make check")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--window-size=1200,900", "--hide-scrollbars", "--lang=en"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        # Chromium's sandbox refuses to run as root.
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    # With the driver's path Selenium downloads none.
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    try:
        yield driver
    finally:
        driver.quit()
