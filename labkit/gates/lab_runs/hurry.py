"""A pytest plugin of the gates' own: tests of linear cost get a fraction of their time limit.

A reference needs at most a twentieth of it and quadratic code ten times as much, so a fraction
tells them apart as well, and a gate need not sit out every limit.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--hurry", type=float, default=1.0, help="part of a limit that is given")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put a smaller limit before the one of the test."""
    limit = item.get_closest_marker("timeout")
    if limit is not None:
        part: float = item.config.getoption("--hurry")
        item.add_marker(pytest.mark.timeout(limit.args[0] * part), append=False)
