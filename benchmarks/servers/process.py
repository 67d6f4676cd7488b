"""A server of `benchmarks.servers.apps` in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.peers.detokenizers import ROOT


@contextmanager
def serving(*arguments: str, quick: bool) -> Iterator[tuple[int, int]]:
    """Run a server; yield its process id and its port.

    Args:
        arguments: of `benchmarks.servers.apps`.
        quick: whether the benchmark only checks that everything runs.

    Raises:
        RuntimeError: it did not start.
    """
    command = [sys.executable, "-m", "benchmarks.servers.apps", *arguments]
    command += ["--quick"] * quick
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the server did not start: {' '.join(command[1:])}")
            yield process.pid, int(line)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
