"""A browser, the page's server, and the page, for the tests of the page."""

import os
from contextlib import suppress

import pytest

# Without what the server needs, tests/conftest.py says so and leaves these tests out.
with suppress(ModuleNotFoundError):
    from browser import open_browser
    from page_stub import Page, PageModel, labs_server, page_server


@pytest.fixture(scope="session")
def driver():
    with open_browser() as driver:
        yield driver


@pytest.fixture(scope="session")
def model():
    return PageModel()


@pytest.fixture(scope="session")
def scripted(model):
    with page_server(model) as server:
        yield server


@pytest.fixture(scope="session")
def labs():
    with labs_server() as server:
        yield server


@pytest.fixture
def page(driver, request):
    """The page of any server: `PAGE_URL=http://127.0.0.1:8000` has other servers tested."""
    return Page(driver, os.environ.get("PAGE_URL") or request.getfixturevalue("scripted").url)


@pytest.fixture
def stage(driver, scripted):
    """The page of the server whose answers are known."""
    return Page(driver, scripted.url)
