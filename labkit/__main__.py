"""`python -m labkit VERB`: the commands behind the Makefile."""

import sys

from labkit.cli import main

sys.exit(main(sys.argv[1:]))
