"""A pytest plugin of the gates' own: tests of linear cost get a fraction of their time limit.

A reference needs at most a twentieth of the limit, and quadratic code ten times the limit. So a
fraction separates them equally well, and a gate need not wait for the end of every limit.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--hurry", type=float, default=1.0, help="fraction of a limit that a test gets"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put a smaller limit before the one of the test."""
    limit = item.get_closest_marker("timeout")
    if limit is not None:
        part: float = item.config.getoption("--hurry")
        item.add_marker(pytest.mark.timeout(limit.args[0] * part), append=False)
