"""`make student-edition OUT=../edition`: the course as a folder to hand out.

It leaves out the reference solutions, the known bugs, the course's own tests and benchmarks, the
grader, and the history. Each `starter.py` is a fresh copy of `course/starter.py.orig`.

Its texts are made from those of the course. In Markdown, text between `<!-- full -->` and `<!--
/full -->` is left out, and text between `<!-- edition` and `-->`, elsewhere a comment, is shown.

But: the edition includes the engine, `mini_vllm`. It has the same ideas in another shape, and
students may read it. If some lines have the shape of lines of a reference, no edition is made.
"""

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from labkit.course.hints import FILE as HINTS
from labkit.course.lab import FACTS, PRISTINE, Lab, find_labs
from labkit.course.predictions import FILE as PREDICTIONS
from labkit.errors import UsageError
from labkit.publish.edition_code import code_of_edition
from labkit.publish.packing import write_folder
from labkit.publish.withheld import check_withheld
from labkit.running.diagnose import FILE as MISTAKES
from labkit.running.racing import FILE as RACE

_WORKFLOW = Path(__file__).parent / "templates/grade.yml"
# Files outside labkit that are not named here are left out.
_FOLDERS = ("mini_vllm", "upstream")
_FILES = (
    ".gitignore", "LICENSE", "conftest.py", "pyproject.toml", "requirements/core.txt",
    "requirements/serve.txt", "requirements/tokenizers.txt", "requirements/watch.txt",
)  # fmt: skip
_LAB_FILES = ("README.md", FACTS, PRISTINE, "test_lab.py", HINTS, PREDICTIONS)
_LAB_FILES_OF_SOME = (MISTAKES, RACE)
_TARGETS = (
    "lab", "progress", "predict", "hint", "show", "watch", "race", "reset", "demo", "serve",
    "stream", "tokenizer", "upstream", "bundle", "plugin",
)  # fmt: skip
# The changes to the text of `make help`.
_HELP = (
    (r".*make solution .*\n", ""),
    ("the reference and a naive version", "a naive version"),
)
_FULL = re.compile(r"^<!-- full -->\n.*?^<!-- /full -->\n", re.MULTILINE | re.DOTALL)
_EDITION = re.compile(r"^<!-- edition\n(.*?)^-->\n", re.MULTILINE | re.DOTALL)


def make_edition(root: Path) -> dict[str, bytes]:
    """Return the files of the student edition, by path.

    Raises:
        UsageError: a document or the Makefile lacks the text that has to be changed.
        LabkitError: a file has lines of a reference, or of a known bug.
    """
    labs = find_labs(root)
    paths = [root / name for name in _FILES]
    for folder in _FOLDERS:
        paths += _plain_files(root / folder)
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    for lab in labs:
        files |= _lab_files(lab, root)
        phase = lab.path.parents[1]
        for path in (phase / "README.md", *phase.glob("guide/*.md"), *phase.glob("demo.py"),
                     *phase.glob("script.toml")):  # fmt: skip
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    files["README.md"] = (root / "README.md").read_bytes()
    files["Makefile"] = _makefile((root / "Makefile").read_text("utf-8")).encode()
    files[".github/workflows/grade.yml"] = _WORKFLOW.read_bytes()
    files = {
        name: edition_text(name, data.decode()).encode() if name.endswith(".md") else data
        for name, data in files.items()
    }
    files |= code_of_edition(files, root)
    check_withheld(files.items(), labs, "the student edition")
    return files


def edition_text(name: str, text: str) -> str:
    """Return the student edition's version of a Markdown text.

    Args:
        name: the name of the document, for the message.
        text: the course's version.

    Raises:
        UsageError: a marker has no counterpart, or is not alone on its line.
    """
    made = _EDITION.sub(r"\1", _FULL.sub("", text))
    left = re.search(r"<!--\s*/?(full|edition)\b.*", re.sub("`[^`]+`", "", made))
    if left:
        raise UsageError(
            f"{name}: the marker {left[0]!r} has no counterpart, or is not alone on its line"
        )
    return re.sub(r"\n{3,}", "\n\n", made).strip("\n") + "\n"


def _plain_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in parts):
            yield path


def _lab_files(lab: Lab, root: Path) -> dict[str, bytes]:
    names = (*_LAB_FILES, *(name for name in _LAB_FILES_OF_SOME if (lab.path / name).exists()))
    files = {name: (lab.path / name).read_bytes() for name in names}
    files["starter.py"] = files[PRISTINE]
    by_path = {(lab.path / name).relative_to(root).as_posix(): data for name, data in files.items()}
    return by_path | {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in (*lab.given_files, *lab.hunt_files)
    }


def _makefile(text: str) -> str:
    """Keep the targets that students use; the others print why they are missing."""
    head, *blocks = re.split(r"\n(?=[a-z][a-z0-9-]*:)", text)
    by_name = {block.partition(":")[0]: block.rstrip() for block in blocks}
    help_text, *theirs = by_name.pop("help", "").split('\t@echo "For instructors"\n')
    known = len(theirs) == 1
    for pattern, replacement in _HELP:
        help_text, count = re.subn(pattern, replacement, help_text)
        known = known and count == 1
    gone = [name for name in by_name if name not in (*_TARGETS, "solution")]
    missing = [name for name in (*_TARGETS, "solution") if name not in by_name]
    if missing or not known:
        raise UsageError(
            f"the Makefile has changed: missing {missing}, or its help has another text; also "
            "change labkit/publish/student_edition.py"
        )
    refusals = (
        "solution:\n"
        '\t@echo "The references are not in a student edition: your instructor has them."; exit 2'
        f"\n\n{' '.join(gone)}:\n"
        '\t@echo "make $@ needs files that a student edition leaves out: the references, the"; \\\n'
        '\techo "grader, or the tests of the course. make help lists your commands."; exit 2'
    )
    targets = [by_name[name] for name in _TARGETS]
    return "\n\n".join([head.rstrip(), help_text.rstrip(), *targets, refusals]) + "\n"


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit student-edition`."""
    command.add_argument("--out", default="", metavar="FOLDER", help="new, or empty")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the edition and print how to publish it; return 0."""
    if not args.out:
        raise UsageError("name a new folder, for example OUT=../student-edition")
    out = Path(args.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is not an empty folder; name a new one")
    files = make_edition(root)
    write_folder(out, files)
    print(f"Wrote {len(files)} files to {os.path.relpath(out)}: no solutions, no history.")
    print("To publish it, put it into a repository of its own, with its own history:")
    print(f"  cd {shlex.quote(str(out))} && git init && git add . && git commit -m 'Labs'")
    return 0
