"""Gates: the code has one style, and its types hold, as pyproject.toml configures ruff and mypy."""

import subprocess
import sys
import tomllib
from pathlib import Path

from labkit.gates.finding import Finding


def style_is_uniform(root: Path) -> list[Finding]:
    """Run ruff's linter and its formatter."""
    return _run(root, "ruff", ["check", "--output-format=concise"]) + _run(
        root, "ruff", ["format", "--check"]
    )


def types_hold(root: Path) -> list[Finding]:
    """Run mypy."""
    return _run(root, "mypy", ["--no-error-summary"])


def _run(root: Path, tool: str, words: list[str]) -> list[Finding]:
    """Return a finding for each line that a tool prints, if a repository configures it."""
    project = root / "pyproject.toml"
    tools = tomllib.loads(project.read_text("utf-8")).get("tool", {}) if project.exists() else {}
    if tool not in tools:
        return []
    command = [sys.executable, "-m", tool, *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [Finding(tool, line) for line in (done.stdout + done.stderr).splitlines() if line]
