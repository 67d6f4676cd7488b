"""The generated parts of a phase's README: the ladder of labs, and the kill matrix.

Each stands between `<!-- begin NAME -->` and `<!-- end NAME -->`; `make matrix` writes it.
"""

from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.errors import LabFolderError


def phase_readmes(root: Path) -> list[Path]:
    """Return the READMEs that have generated parts: one a phase."""
    return sorted({lab.path.parents[1] / "README.md" for lab in find_labs(root)})


def filled(readme: Path, root: Path) -> str:
    """Return the text of a phase's README with its generated parts written afresh.

    Raises:
        LabFolderError: a part's markers are missing.
    """
    labs = [lab for lab in find_labs(root) if lab.path.parents[1] == readme.parent]
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    for name, part in (("ladder", _ladder(labs)), ("kill matrix", _matrix(labs))):
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise LabFolderError(f"{readme} has no lines {begin} and {end} to write between")
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{part}\n\n{end}{rest.partition(end)[2]}"
    return text


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
    for readme in phase_readmes(root):
        text = filled(readme, root)
        if text != readme.read_text(encoding="utf-8"):
            readme.write_text(text, encoding="utf-8")
            changed.append(readme)
    return changed
