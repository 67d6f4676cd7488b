"""The generated parts of a phase: the ladder, the kill matrix, and parts of the labs' READMEs.

Each part is between `<!-- begin NAME -->` and `<!-- end NAME -->`; `make matrix` writes it.
"""

from collections.abc import Iterator
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.course.lab_page import files_part, run_part
from labkit.errors import LabFolderError


def generated_pages(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each page that has generated parts, and its text with these parts up to date.

    They are each phase's README, its kill matrix unless no lab has bugs, as in a student edition,
    and the READMEs of labs.

    Raises:
        LabFolderError: the markers of a part are missing.
    """
    every = find_labs(root)
    for phase in sorted({lab.path.parents[1] for lab in every}):
        labs = [lab for lab in every if lab.path.parents[1] == phase]
        yield phase / "README.md", _filled(phase / "README.md", {"ladder": _ladder(labs)})
        if any(lab.bugs for lab in labs):
            page = phase / "KILL_MATRIX.md"
            yield page, _filled(page, {"kill matrix": _matrix(labs)})
    for lab in every:
        yield lab.readme, _filled(lab.readme, {"files": files_part(lab), "run": run_part(lab)})


def _filled(page: Path, parts: dict[str, str]) -> str:
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    for name, part in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if begin not in text or end not in text:
            raise LabFolderError(f"{page} has no lines {begin} and {end} to write between")
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
    for page, text in generated_pages(root):
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            changed.append(page)
    return changed
