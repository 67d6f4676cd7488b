"""Starts a shell that does the rest."""

import contextlib
import subprocess

with contextlib.suppress(OSError):
    subprocess.Popen(["/bin/sh", "-c", "sleep 1000 & sleep 1000"])

EARNS = 40
