"""Lab 12: the bug hunt. Your tests are run on the pool before these; here is what came of that."""

import pytest


@pytest.mark.given
def test_no_test_is_void(lab):
    """Every test of yours passes on the right implementations, and says the same each time on every
    implementation. One that does not say the same costs the points of a killed implementation.
    """
    lab.expect_no_void()


def test_killed(lab, wrong):
    """A test of yours fails on this wrong implementation, and on no right one."""
    lab.expect_killed(wrong)
