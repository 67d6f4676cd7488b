"""Lab 12: the bug hunt. Your tests run on the pool first; these tests report the results."""

import pytest


@pytest.mark.given
def test_no_test_is_void(lab):
    """Every test of yours passes on every correct implementation, and has the same result each time
    on each implementation. A flaky test costs the points of a killed implementation.
    """
    lab.expect_no_void()


def test_killed(lab, wrong):
    """One of your tests fails on this wrong implementation and on no correct implementation."""
    lab.expect_killed(wrong)
