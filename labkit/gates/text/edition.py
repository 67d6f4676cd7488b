"""Gate: the student edition is true: its texts and links name only things that it contains.

Its commands do not need the grader either, so that students do not get the code that walls in
submissions.

The edition is made in a scratch folder. If a file has lines of a reference, no edition is made,
which is a finding. The gate `promises` checks that the edition's commands work.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from labkit.course.imports import imported_files
from labkit.course.markdown import headings, leads_out, slug, without_code
from labkit.gates.finding import Finding

# Phrases that no text of the edition may contain, because they are not true there.
FORBIDDEN = (
    "solution.py", "bugs.toml", "`bug:", "LAB_IMPL=bug", "LAB_IMPL=solution", "LAB_PARTS",
    "INSTRUCTORS", "CONTRIBUTING", "kill matrix", "known bug", "make bug", "make check",
    "make grade", "make matrix", "make reference", "make solution", "make test",
    "Read the reference", "references where", "reference otherwise", "references otherwise",
    "their references", "tests the reference", "test the reference", "one the reference",
    "beside the reference", "Student edition.",
)  # fmt: skip
# The files that students read, besides pytest's output: by name.
_TEXTS = ("*.md", "hints.toml", "predict.toml", "lab.toml", "mistakes.py", "race.py", "starter.py")
# `make bundle` writes the input of grading; students have no other code of grading.
_BUNDLES = "labkit/grading/reading/bundles.py"
_ROOMS_OF_GRADER = ("labkit/gates/", "labkit/grading/", "labkit/isolation/")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def edition_is_true(root: Path) -> list[Finding]:
    """Check the texts of a student edition that is made of `root`."""
    if not (root / "README.md").exists():
        return []
    with tempfile.TemporaryDirectory() as scratch:
        edition = Path(scratch) / "edition"
        command = [sys.executable, "-m", "labkit", "student-edition", "--out", str(edition)]
        made = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return [Finding("student edition", made.stderr.strip())]
        return [*untrue_texts(edition), *broken_links(edition), *code_of_grader(edition)]


def untrue_texts(edition: Path) -> Iterator[Finding]:
    """Find the forbidden phrases in the texts of an edition."""
    # With any line breaks.
    phrases = [r"\s+".join(map(re.escape, phrase.split())) for phrase in FORBIDDEN]
    for path in sorted({path for name in _TEXTS for path in edition.rglob(name)}):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer("|".join(phrases), text):
            number = text.count("\n", 0, match.start()) + 1
            place = f"{path.relative_to(edition)} line {number}"
            yield Finding(place, f"{match[0]!r} is not for a student edition")


def code_of_grader(edition: Path) -> Iterator[Finding]:
    """Find the grader's files in an edition, which are there because a command imports them."""
    imported = imported_files(edition.glob(_BUNDLES), edition)
    bundles = {name for name in imported if "/grading/" in name}
    # A module is imported with its packages.
    bundles |= {f"{folder}/__init__.py" for name in bundles for folder in Path(name).parents}
    for path in sorted(edition.rglob("labkit/**/*.py")):
        name = path.relative_to(edition).as_posix()
        if name.startswith(_ROOMS_OF_GRADER) and name not in bundles:
            yield Finding(name, "it is the grader's, and a command for students imports it")


def broken_links(folder: Path) -> Iterator[Finding]:
    """Find the links of a folder's Markdown that lead to no file, or to no heading of it."""
    for path in sorted(folder.rglob("*.md")):
        for link in _LINK.findall(without_code(path.read_text("utf-8"))):
            target, _, anchor = link.partition("#")
            other = path.parent / target if target else path
            if leads_out(link):
                continue
            if not other.exists():
                message = f"the link to {link} leads nowhere"
            elif anchor and anchor not in _anchors(other):
                message = f"the link to {link}: there is no such heading"
            else:
                continue
            yield Finding(str(path.relative_to(folder)), message)


def _anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a Markdown file."""
    return {slug(title) for _, _, title in headings(path.read_text("utf-8"))}
