"""The server as users start it: a process of its own."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def process(*arguments, command=("mini_vllm.server",), **environment):
    """Run a server at a free port of 127.0.0.1, its default; yield the process and the port.

    `head` of the process is what it has printed up to its address.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", *command, "--port", "0", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child.head = ""
    try:
        for line in child.stdout:
            child.head += line
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if found:
                break
        else:
            pytest.fail(child.stderr.read())
        yield child, int(found[1])
    finally:
        child.kill()
        child.wait()
