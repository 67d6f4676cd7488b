"""`make student-edition OUT=../edition`: the course as a folder to hand out.

It leaves out the reference solutions, the edits of the known bugs, the course's own tests and
benchmarks, and the history. Each `starter.py` is a fresh copy of `starter.py.orig`. Commands that
need a reference say so; the failing tests of each known bug stay, so that reports still say what a
mistake looks like.

But: the engine, `mini_vllm`, comes along. It has the same ideas in another shape, and students may
read it.
"""

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.errors import UsageError
from labkit.publish.actions import WORKFLOW
from labkit.publish.packing import bugs_without_edits

# Whatever is not named here is left out.
_FOLDERS = ("labkit", "mini_vllm", "upstream")
_FILES = (
    ".gitignore", "LICENSE", "conftest.py", "pyproject.toml", "requirements/core.txt",
    "requirements/serve.txt", "requirements/tokenizers.txt", "requirements/watch.txt",
)  # fmt: skip
_LAB_FILES = ("lab.toml", "starter.py.orig", "test_lab.py")
_TARGETS = (
    "lab", "progress", "hint", "solution", "watch", "reset", "demo", "serve", "tokenizer", "bundle",
    "grade",
)  # fmt: skip
_README = Path(__file__).parent / "templates/student_readme.txt"
_NOTE = """
> **Student edition.** There is no `solution.py` here, and `bugs.toml` has no edits. Whatever needs
> them says so: `pytest` without `LAB_IMPL=starter`, `LAB_IMPL=bug:NAME`, `LAB_PARTS=reference`,
> `make bug`, `make check`. A lab builds on your own earlier labs, so those come first.
"""


def make_edition(root: Path) -> dict[str, bytes]:
    """Return the files of the student edition, by path.

    Raises:
        UsageError: a document or the Makefile lacks the text that has to be changed.
    """
    paths = [root / name for name in _FILES]
    for folder in _FOLDERS:
        paths += _plain_files(root / folder)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    labs = find_labs(root)
    for lab in labs:
        files |= _lab_files(lab, root)
    for phase in sorted({lab.path.parent.parent for lab in labs}):
        name = phase.relative_to(root).as_posix()
        files[f"{name}/README.md"] = _noted((phase / "README.md").read_text("utf-8")).encode()
        demo = phase / "demo.py"
        if demo.exists():
            files[f"{name}/demo.py"] = demo.read_bytes()
    files["Makefile"] = _makefile((root / "Makefile").read_text("utf-8")).encode()
    files["README.md"] = _readme((root / "README.md").read_text("utf-8"), labs, root).encode()
    files[".github/workflows/grade.yml"] = WORKFLOW.read_bytes()
    return files


def _plain_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in parts):
            yield path


def _lab_files(lab: Lab, root: Path) -> dict[str, bytes]:
    files = {name: (lab.path / name).read_bytes() for name in _LAB_FILES}
    files["starter.py"] = files["starter.py.orig"]
    files["bugs.toml"] = bugs_without_edits(lab)
    text, count = re.subn(r"^- `solution\.py`.*\n", "", lab.readme.read_text("utf-8"), flags=re.M)
    if count != 1:
        raise UsageError(f"{lab.name}/README.md: no single line under Files is about solution.py")
    files["README.md"] = _noted(text).encode()
    return {(lab.path / name).relative_to(root).as_posix(): data for name, data in files.items()}


def _noted(text: str) -> str:
    """Put the note below the title."""
    title, _, rest = text.partition("\n")
    return f"{title}\n{_NOTE}{rest}"


def _makefile(text: str) -> str:
    """Keep the targets that students use; the others say why they are missing."""
    head, *blocks = re.split(r"\n(?=[a-z][a-z0-9-]*:)", text)
    by_name = {block.partition(":")[0]: block.rstrip() for block in blocks}
    help_text, found, _ = by_name.pop("help", "").partition('\t@echo "For instructors"\n')
    gone = [name for name in by_name if name not in _TARGETS]
    demo, theirs = by_name.get("demo", ""), "demo --impl starter $(ARGS)"
    by_name["demo"] = demo.replace("demo $(ARGS)", theirs)
    missing = [name for name in _TARGETS if name not in by_name]
    if missing or not found or theirs not in by_name["demo"]:
        raise UsageError(
            f"the Makefile has changed: missing {missing}, 'For instructors' {bool(found)}, "
            f"demo {theirs in by_name['demo']}; change labkit/publish/student_edition.py, too"
        )
    refusal = (
        f"{' '.join(gone)}:\n"
        '\t@echo "make $@ needs what a student edition leaves out: the references, or the"; \\\n'
        '\techo "tests of the course itself. make help lists what is here."; exit 2'
    )
    kept = [by_name[name] for name in _TARGETS]
    return "\n\n".join([head.rstrip(), help_text.rstrip(), *kept, refusal]) + "\n"


def _readme(text: str, labs: list[Lab], root: Path) -> str:
    """Keep the introduction and the section on systems; the rest is the edition's own."""
    intro, found, _ = text.partition("## For students\n")
    systems = re.search(r"^## Where it runs\n.*?(?=^Tried by us|^## )", text, re.M | re.S)
    if not found or systems is None:
        raise UsageError("README.md has no 'For students' or no 'Where it runs' any more")
    ladder = [
        f"| {step} | [{lab.label}: {lab.title}]({lab.readme.relative_to(root)}) "
        f"| {lab.summary} | {lab.time} |"
        for step, lab in enumerate(labs, start=1)
    ]
    told = {
        "@LADDER@": "\n".join(["| step | lab | you build | time |", "|---|---|---|---|", *ladder]),
        "@FOLDER@": labs[0].path.relative_to(root).as_posix(),
        "@NUMBER@": labs[0].number,
    }
    own = _README.read_text("utf-8")
    for word, value in told.items():
        own = own.replace(word, value)
    return f"{intro}{own}\n{systems[0].rstrip()}\n"


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit student-edition`."""
    command.add_argument("--out", default="", metavar="FOLDER", help="new, or empty")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the edition and say how to publish it; return 0."""
    if not args.out:
        raise UsageError("name a new folder, for example OUT=../student-edition")
    out = Path(args.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is not an empty folder; name a new one")
    files = make_edition(root)
    for name, data in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"Wrote {len(files)} files to {os.path.relpath(out)}: no solutions, no history.")
    print("To publish it, make a repository of its own, whose history begins there:")
    print(f"  cd {shlex.quote(str(out))} && git init && git add . && git commit -m 'Labs'")
    return 0
