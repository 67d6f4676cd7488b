"""`python -m mini_vllm.server`."""

import sys

from mini_vllm.server.cli import main

if __name__ == "__main__":
    sys.exit(main())
