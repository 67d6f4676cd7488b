"""Load the lab plugins: one runs, scores and reports labs, the other remembers scores.

Whoever calls a pytest from outside of the course's environment comes by here first. So this file
parses on old Pythons, and says in one line what is wrong there and what to do.
"""

import importlib.util
import os
import shlex
import sys
import warnings

import pytest

_ROOT = os.path.dirname(os.path.abspath(__file__))


def _what_is_wrong() -> str:
    """Return what keeps the labs from running here; empty if nothing does."""
    if sys.version_info < (3, 11):
        return "the labs need Python 3.11 or newer, this is {}.{}".format(*sys.version_info)
    if int(pytest.__version__.split(".")[0]) < 9:
        return f"the labs need pytest 9 or newer, this is {pytest.__version__}"
    if importlib.util.find_spec("rich") is None:
        return f"the package rich is not installed for {sys.executable}"
    return ""


def _what_to_do() -> str:
    names = [os.path.join(_ROOT, ".venv", "bin", name) for name in ("activate", "pytest")]
    if not os.path.exists(names[1]):
        return "`make lab` sets up all that they need; or install pytest, tokenizers and rich"
    activate, command = (shlex.quote(os.path.relpath(name)) for name in names)
    return f"run `source {activate}` first, or call {command}"


_wrong = _what_is_wrong()
if _wrong:
    # Any other kind of exception is shown with its traceback; of this one old pytests warn.
    warnings.warn = lambda *_, **__: None
    sys.stderr.write(f"ERROR: {_wrong}: {_what_to_do()}\n")
    raise SystemExit(4)

pytest_plugins = ["labkit.running.plugin", "labkit.student.score_keeper"]
if "pytest_timeout" not in sys.modules and importlib.util.find_spec("pytest_timeout"):
    # It comes first, as it declares an option that is declared for it where it is missing.
    pytest_plugins.insert(0, "pytest_timeout")
