"""Python as a browser has it, in node: the site's archives, unpacked in Pyodide in a worker."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from labkit.course.lab import ROOT

PYODIDE = ROOT / "site" / "node_modules" / "pyodide"
# Everything but one run is for those who ask for it.
LONG = pytest.mark.skipif(
    not (os.environ.get("SOAK") or os.environ.get("SITE")),
    reason="`make site ARGS=--test` and `make soak` run this",
)
PROGRAM = Path(__file__).with_name("python.mjs")


def need_pyodide():
    """Skip the test where there is no Pyodide; in CI there must be."""
    missing = "node" if shutil.which("node") is None else "" if PYODIDE.exists() else "Pyodide"
    if missing and os.environ.get("CI"):
        pytest.fail(f"{missing} is not installed")
    if missing:
        pytest.skip(f"needs {missing}: apt-get install nodejs npm, then make site")


class Interpreter:
    """A process with the page's side and a worker; see `python.mjs`.

    Args:
        folder: where the archives are.
        options: of the program.
    """

    def __init__(self, folder, *options):
        self._process = subprocess.Popen(
            ["node", str(PROGRAM), str(PYODIDE), str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, verb, argument, fresh=False):
        """Return the answer of a verb, with the events before it."""
        request = {"verb": verb, "argument": json.dumps(argument), "fresh": fresh}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "node has ended"
        return json.loads(line)

    def run(self, number, source, fresh=False, **asked):
        """Return the answer to a run of a lab on a source."""
        asked = {"lab": number, "files": {number: source}, "progress": {}, **asked}
        return self.ask("run", asked, fresh)
