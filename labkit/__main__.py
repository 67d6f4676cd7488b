"""`python -m labkit VERB`: the commands behind the Makefile."""

import io
import os
import sys

from labkit.interrupt import ends_at_once

with ends_at_once():
    from labkit.cli import main

if sys.stdout is None:
    # A shell's `>&-` has closed it.
    sys.stdout = io.TextIOWrapper(io.FileIO(os.devnull, "w"))
# The labs are about characters that not every terminal can show.
for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
sys.exit(main(sys.argv[1:]))
