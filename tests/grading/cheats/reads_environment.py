"""Looks for secrets and paths in its environment."""

import os
import sys

assert not {
    name for name in os.environ if name not in ("PATH", "LANG", "LC_CTYPE", "PWD", "PYTHONHASHSEED")
}, os.environ
assert not any(word.endswith(("solution.py", "test_lab.py")) for word in sys.argv), sys.argv

EARNS = 40
