"""Under ORACLES=1, as `make oracles` sets it, a skip in this folder is a failure.

`make oracles ARGS=--here` sets another value: it runs what can be run without a download.
"""

import os

import pytest

STRICT = os.environ.get("ORACLES") == "1"


def _fail_on_skip(report):
    if STRICT and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, but make oracles skips nothing: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _fail_on_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _fail_on_skip((yield))
