"""Gate: imports point down only, as `[tool.importlinter]` in pyproject.toml draws them."""

import os
import subprocess
import sys
from pathlib import Path

from labkit.course.lab import FACTS, Lab, find_labs
from labkit.errors import LabkitError, LoadFailure
from labkit.gates.finding import Finding
from labkit.running.given import read_given
from labkit.running.source import check_imports, load_given

_LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def arrows_point_down(root: Path, labs: list[Lab] | None = None) -> list[Finding]:
    """Check the packages with import-linter, and the imports of the labs' own files.

    If only some labs are named, it checks only their files.
    """
    return _labs(find_labs(root)) + _packages(root) if labs is None else _labs(labs)


def _packages(root: Path) -> list[Finding]:
    command = [sys.executable, "-c", _LINT,
               "--config", str(root / "pyproject.toml"), "--no-cache", "--no-logo"]  # fmt: skip
    # The packages of `root` must win over an installed or current-folder copy.
    env = {**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    lines = [line.strip() for line in done.stdout.splitlines()]
    # For a circle, the imports are named relative to a package, which another line names.
    broken = [
        line
        for line in lines
        if (line.startswith("- ") and "->" in line) or line.startswith("No cycles are allowed")
    ]
    return [Finding("imports", line.removeprefix("- ")) for line in broken] or [
        Finding("imports", (done.stdout + done.stderr).strip())
    ]


def _labs(labs: list[Lab]) -> list[Finding]:
    findings: list[Finding] = []
    for lab in labs:
        for path in (lab.solution, lab.pristine_starter):
            try:
                if path.exists():
                    check_imports(path.read_bytes(), path.name, lab.given)
            except LoadFailure as error:
                findings.append(Finding(f"{lab.name}/{path.name}", str(error)))
        try:
            load_given(read_given(lab), f"checked.{lab.label}.given")
        except LabkitError as error:
            findings.append(Finding(f"{lab.name}/{FACTS}", str(error)))
    return findings
