"""The generated parts of a phase: the ladder in its README, and the kill matrix on its own page.

Each stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; `make matrix` writes it.
"""

from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.errors import LabFolderError

_MATRIX = "KILL_MATRIX.md"


def generated_pages(root: Path) -> list[Path]:
    """Return the pages that have a generated part.

    They are each phase's README, and its kill matrix unless no lab has bugs, as in a student
    edition.
    """
    labs = find_labs(root)
    readmes = {lab.path.parents[1] / "README.md" for lab in labs}
    return sorted(readmes | {lab.path.parents[1] / _MATRIX for lab in labs if lab.bugs})


def filled(page: Path, root: Path) -> str:
    """Return the text of a page with its generated part written afresh.

    Raises:
        LabFolderError: the part's markers are missing.
    """
    labs = [lab for lab in find_labs(root) if lab.path.parents[1] == page.parent]
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    name, make = ("kill matrix", _matrix) if page.name == _MATRIX else ("ladder", _ladder)
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    if begin not in text or end not in text:
        raise LabFolderError(f"{page} has no lines {begin} and {end} to write between")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n\n{make(labs)}\n\n{end}{rest.partition(end)[2]}"


def _ladder(labs: list[Lab]) -> str:
    rows = [
        "| step | lab | you build | time | difficulty | before it |",
        "|---|---|---|---|---|---|",
    ]
    for step, lab in enumerate(labs, start=1):
        link = f"[{lab.label}: {lab.title}](labs/{lab.name}/README.md)"
        cells = (step, link, lab.summary, lab.time, lab.difficulty, lab.prerequisites)
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def _matrix(labs: list[Lab]) -> str:
    return "\n\n".join(_lab_matrix(lab) for lab in labs)


def _lab_matrix(lab: Lab) -> str:
    letters = [chr(ord("A") + number) for number in range(len(lab.bugs))]
    lines = [f"### {lab.label}: {lab.title}", ""]
    for letter, bug in zip(letters, lab.bugs, strict=True):
        seen = f" Seen in {bug.seen_in}." if bug.seen_in else ""
        title = bug.title.replace("<", "&lt;")
        lines.append(f"- **{letter}** `bug:{bug.name}`: {title}.{seen}")
    lines += ["", "| test | " + " | ".join(letters) + " |", "|---" * (len(letters) + 1) + "|"]
    for test in lab.tests:
        if not test.given:
            marks = ("✗" if test.name in bug.killed_by else " " for bug in lab.bugs)
            lines.append(f"| `{test.name}` | " + " | ".join(marks) + " |")
    return "\n".join(lines)


def write(root: Path) -> list[Path]:
    """Write all generated parts; return the files that changed."""
    changed = []
    for page in generated_pages(root):
        text = filled(page, root)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            changed.append(page)
    return changed
