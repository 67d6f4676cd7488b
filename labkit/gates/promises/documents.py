"""The commands that documents tell readers to type, and their places.

Commands are in blocks of `bash`, in `code` within a sentence, and in the output of `make help`.
"""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"(?:[^\n]*\\\n)*[^\n]+")
_SPAN = re.compile(r"`([^`]+)`")
# Text that GitHub does not show: it is for an edition or the site.
_HIDDEN = re.compile(r"^<!-- (?!full).*?-->", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:make [a-z]|pytest |pip install '\.|mini-vllm [a-z]|\.venv/bin/|python )"
)
_HELP = re.compile(r"make [a-z][a-z0-9-]*(?: [A-Z]+=(?:'[^']*'|\S+))*")
_FOLDERS_LEFT_OUT = {"tests", "build", "node_modules", "site"}
# They record earlier states and measurements.
_RECORDS = ("CHANGELOG.md", "RESULTS.md")


HELP = "make help"


class Command(NamedTuple):
    """A command that a document asks readers to type.

    Attributes:
        text: the command, in one line.
        document: the path of its document from the repository, or `HELP`.
        position: the number of characters before it in the document.
        is_command: false for a sentence that promises something.
    """

    text: str
    document: str
    position: int
    is_command: bool = True


def documents(root: Path, *, records: bool = False) -> list[Path]:
    """Return the Markdown that readers have, in the order in which they meet it.

    Args:
        root: the repository.
        records: whether to include documents that promise nothing, but record earlier states.
    """
    paths = []
    for path in root.rglob("*.md"):
        parts = path.relative_to(root).parts
        hidden = any(part.startswith(".") or part in _FOLDERS_LEFT_OUT for part in parts)
        if not hidden and (records or path.name not in _RECORDS):
            paths.append(path)
    return sorted(paths, key=lambda path: (len(path.parts), path.name != "README.md", path))


def shown(text: str) -> str:
    """Return a Markdown text with blanks in place of the text that is not shown."""
    return _HIDDEN.sub(_blanks, text)


def words(text: str) -> str:
    """Return a text with one blank between two words, however its lines are broken."""
    return " ".join(text.split())


def texts(root: Path) -> dict[str, str]:
    """Return the visible text of each document, by its path from the repository, in order."""
    paths = {path.relative_to(root).as_posix(): path for path in documents(root)}
    read = {name: shown(path.read_text("utf-8")) for name, path in paths.items()}
    return read | {HELP: help_text(root)}


def commands(root: Path) -> list[Command]:
    """Return all commands of a repository's documents, in order."""
    all_commands = []
    for path in documents(root):
        name = path.relative_to(root).as_posix()
        all_commands += [
            Command(text, name, at) for at, text in commands_of(path.read_text("utf-8"))
        ]
    listed = _HELP.finditer(help_text(root))
    return all_commands + [Command(match[0], HELP, match.start()) for match in listed]


def commands_of(text: str) -> list[tuple[int, str]]:
    """Return the commands of a Markdown text, and where each begins."""
    text = shown(text)
    occurrences = []
    for block in _BLOCK.finditer(text):
        if block[1] == "bash":
            for line in _LINE.finditer(block[2]):
                command = re.sub(r"\s+#.*", "", re.sub(r"\s*\\\n\s*", " ", line[0])).strip()
                if command:
                    occurrences.append((block.start(2) + line.start(), command))
    for span in _SPAN.finditer(_BLOCK.sub(_blanks, text)):
        if _PROGRAM.match(words(span[1])):
            occurrences.append((span.start(), words(span[1])))
    return sorted(occurrences)


def _blanks(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def help_text(root: Path) -> str:
    """Return the output of `make help`, "" without a Makefile."""
    if not (root / "Makefile").exists():
        return ""
    command = ["make", "-s", "--no-print-directory", "help"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
