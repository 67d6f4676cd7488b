"""Runs of labs: each is a pytest process of its own, as many at a time as there are processors.

The processes are forked from a server that has imported pytest, which takes a new Python half a
second.
"""

import gc
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from labkit.course.lab import Lab

Outcome = dict[str, Any]
_FORKS = multiprocessing.get_context("forkserver")
# What a run imports, but for the plugins themselves, which pytest insists on importing.
PRELOAD = [
    "pytest", "pdb", "unittest", "difflib", "xml.etree.ElementTree", "labkit.running.diagnose",
    "labkit.running.drive", "labkit.running.reporting.report", "labkit.running.under_test",
    "labkit.running.limits.watchdog", "labkit.student.progress", "labkit.testing",
]  # fmt: skip
_FORKS.set_forkserver_preload(PRELOAD)


def run_all(root: Path, jobs: Iterable[tuple[Lab, str]], *, hurry: float = 1.0) -> list[Outcome]:
    """Run (lab, implementation) pairs at the same time; return their outcomes in order.

    A terminal shows how many are done.

    Args:
        root: the repository.
        jobs: the pairs.
        hurry: the part of its time limit that a test of linear cost is given.
    """
    todo, outcomes = list(jobs), []
    # No source changes while these run, so no bytecode can be stale: the runs share it.
    with tempfile.TemporaryDirectory() as bytecode, ThreadPoolExecutor(os.cpu_count()) as pool:
        for outcome in pool.map(lambda job: run_lab(root, job[0], job[1], hurry, bytecode), todo):
            outcomes.append(outcome)
            if sys.stdout.isatty():
                done = f"{len(outcomes)}/{len(todo)}"
                print(done + "\b" * len(done), end="", flush=True)
    return outcomes


def run_lab(
    root: Path, lab: Lab, implementation: str, hurry: float = 1.0, bytecode: str | None = None
) -> Outcome:
    """Run one lab under `LAB_IMPL=implementation`; return its results file, or `{"error": ...}`.

    Args:
        root: the repository.
        lab: the lab.
        implementation: what is run.
        hurry: the part of its time limit that a test of linear cost is given.
        bytecode: see `run_pytest`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch) / "results.json"
        command = [str(lab.path), "-q", "-p", "no:cacheprovider", "--rootdir", str(root),
                   "-p", "labkit.gates.hurry", "--hurry", str(hurry),
                   "--lab-results", str(results)]  # fmt: skip
        env = {**os.environ, "LAB_IMPL": implementation, "LAB_PARTS": "reference"}
        _, printed = run_pytest(command, root, env, bytecode)
        if not results.exists():
            return {"error": printed.strip()[-2000:]}
        outcome: Outcome = json.loads(results.read_text(encoding="utf-8"))[0]
        return outcome


def run_pytest(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str], bytecode: str | None = None
) -> tuple[int | None, str]:
    """Run pytest in a process of its own.

    Args:
        arguments: of its command line.
        folder: where it runs.
        env: its environment.
        bytecode: a folder for what is compiled; without one, nothing of it is kept.

    Returns:
        Its exit code, None if the process died before it had one, and all that it printed.
    """
    output, to_output = _FORKS.Pipe(duplex=False)
    code, to_code = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(
        target=_run_here, args=(list(arguments), folder, dict(env), bytecode, to_output, to_code)
    )
    process.start()
    to_output.close()
    to_code.close()
    with open(output.fileno(), "rb", closefd=False) as stream:
        # Until the last one has closed it: the watchdog speaks when its process has gone.
        printed = stream.read().decode(errors="replace")
    process.join()
    try:
        return code.recv(), printed
    except EOFError:
        return None, printed


def _run_here(
    arguments: list[str],
    folder: Path,
    env: dict[str, str],
    bytecode: str | None,
    output: Connection,
    code: Connection,
) -> None:
    # What the server has imported is no garbage; pytest looks for garbage when it ends.
    gc.freeze()
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    output.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bytecode is None
    sys.pycache_prefix = bytecode
    code.send(int(pytest.main(arguments)))
