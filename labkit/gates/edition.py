"""Gate: the student edition is true: its texts name only what is there, and its commands run.

The edition is made in a scratch folder, twice. In the one every lab is solved, and every command of
its texts has to end well; in the other nothing is written, and no command may end otherwise than by
saying what to do. Where a file has lines of a reference, no edition is made, and that is a finding.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from labkit.course.lab import Lab, find_labs
from labkit.gates.finding import Finding

# What no text of the edition says, because it is not there or not so.
FORBIDDEN = (
    "solution.py", "bugs.toml", "`bug:", "LAB_IMPL=bug", "LAB_IMPL=solution", "LAB_PARTS",
    "INSTRUCTORS", "CONTRIBUTING", "kill matrix", "known bug", "make bug", "make check",
    "make matrix", "make reference", "make solution", "make test", "Read the reference",
    "references where", "reference otherwise", "references otherwise", "their references",
    "tests the reference", "test the reference", "one the reference", "beside the reference",
    "Student edition.",
)  # fmt: skip
# What students read, besides what pytest says: by name.
_TEXTS = ("*.md", "hints.toml", "predict.toml", "lab.toml", "mistakes.py", "race.py", "starter.py")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_BASH = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SECONDS = 120


class Try(NamedTuple):
    """How a command of the texts is tried.

    Attributes:
        pattern: at the start of the command.
        instead: what runs in its place, if it would not end by itself.
        codes: exit codes that are right where nothing is written yet; if none, it is not tried.
        solved_codes: those that are right where every lab is solved.
    """

    pattern: str
    instead: str = ""
    codes: tuple[int, ...] = (0, 1)
    solved_codes: tuple[int, ...] = (0,)


# The first row that fits counts. 2 is what commands answer that need an earlier step first, or a
# "yes", which nobody gives here.
TRIES = (
    Try(r"source ", instead="true"),
    Try(r"LAB_IMPL=starter make serve", "LAB_IMPL=starter make serve ARGS=--help", (2,)),
    Try(r"make serve", "make serve ARGS=--help"),
    Try(r"make watch", "make -n watch"),
    Try(r"make upstream", "make -n upstream"),
    Try(r"make lab N=\d+ T=|LAB_IMPL=starter pytest phase-", codes=()),
    Try(r"(LAB_IMPL=\S+ )?make demo|make bundle", codes=(2,)),
    Try(r"make reset", solved_codes=(2,)),
    Try(""),
)


def edition_is_true(root: Path) -> list[Finding]:
    """Check the texts of a student edition that is made of `root`, and run their commands."""
    if not (root / "README.md").exists():
        return []
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / "nothing written"
        command = [sys.executable, "-m", "labkit", "student-edition", "--out", str(fresh)]
        made = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return [Finding("student edition", made.stderr.strip())]
        found = [*untrue_texts(fresh), *broken_links(fresh)]
        lines = commands(fresh)
        (fresh / ".venv").symlink_to(sys.prefix)
        solved = Path(scratch) / "solved"
        shutil.copytree(fresh, solved, symlinks=True)
        # Passing the labs is what some other commands ask for.
        passing = [f"make lab N={lab.number}" for lab in _solve(root, solved)]
        with ThreadPoolExecutor() as pool:
            runs = [
                pool.submit(_run_all, fresh, lines, False),
                pool.submit(_run_all, solved, [*passing, *lines], True),
            ]
            return [*found, *(one for run in runs for one in run.result())]


def untrue_texts(edition: Path) -> Iterator[Finding]:
    """Find what no text of an edition may say."""
    # However the lines are broken.
    phrases = [r"\s+".join(map(re.escape, phrase.split())) for phrase in FORBIDDEN]
    for path in sorted({path for name in _TEXTS for path in edition.rglob(name)}):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer("|".join(phrases), text):
            number = text.count("\n", 0, match.start()) + 1
            place = f"{path.relative_to(edition)} line {number}"
            yield Finding(place, f"{match[0]!r} is not for a student edition")


def broken_links(folder: Path) -> Iterator[Finding]:
    """Find the links of a folder's Markdown that lead to no file, or to no heading of it."""
    for path in sorted(folder.rglob("*.md")):
        for link in _LINK.findall(_without_code(path)):
            target, _, anchor = link.partition("#")
            other = path.parent / target if target else path
            if "://" in link or link.startswith("mailto:"):
                continue
            if not other.exists():
                message = f"the link to {link} leads nowhere"
            elif anchor and anchor not in _anchors(other):
                message = f"the link to {link}: there is no such heading"
            else:
                continue
            yield Finding(str(path.relative_to(folder)), message)


def _without_code(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a Markdown file."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings}


def commands(folder: Path) -> list[str]:
    """Return the commands of a folder's Markdown, each once, in order."""
    lines: dict[str, None] = {}
    for path in sorted(folder.rglob("*.md")):
        for block in _BASH.findall(path.read_text(encoding="utf-8")):
            lines |= dict.fromkeys(re.sub(r"\s+#.*", "", line) for line in block.splitlines())
    return [line for line in lines if line.strip()]


def _solve(root: Path, edition: Path) -> list[Lab]:
    """Put the references in the place of the starters; return the labs in order."""
    labs = find_labs(edition)
    for mine, theirs in zip(find_labs(root), labs, strict=True):
        theirs.starter.write_bytes(mine.solution.read_bytes())
    return labs


def _run_all(edition: Path, lines: list[str], solved: bool) -> list[Finding]:
    found = []
    for line in lines:
        how = next(how for how in TRIES if re.match(how.pattern, line))
        right = how.solved_codes if solved else how.codes
        if not right:
            continue
        done = _run(edition, how.instead or line, in_ci=solved)
        if done.returncode not in right or "Traceback" in done.stdout:
            end = done.stdout.strip()[-600:]
            message = f"`{line}` ends with {done.returncode}, not {right}:\n{end}"
            found.append(Finding(f"student edition, {edition.name}", message))
    return found


def _run(edition: Path, line: str, *, in_ci: bool) -> subprocess.CompletedProcess[str]:
    """Run a command as in the edition's own environment, which is that of the course.

    In CI a test that fails is an error of make's; elsewhere only a command that is wrong is.
    """
    env = {name: value for name, value in os.environ.items() if name[:4] != "LAB_" and name != "CI"}
    env |= {"PYTHONPATH": str(edition), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"}
    env |= {"CI": "true"} if in_ci else {}
    env["PATH"] = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{env['PATH']}"
    # The set-up would install into that environment and make it the edition's.
    line = re.sub(r"\bmake\b", "make setup=@:", line)
    return subprocess.run(
        ["bash", "-c", line], cwd=edition, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
