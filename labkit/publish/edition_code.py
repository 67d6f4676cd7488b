"""The files of labkit in a student edition: those that the edition's commands reach.

They are derived, not listed. The commands are the verbs of the students' table; the programs that
the Makefile, the workflow or a document runs, as `-m labkit` or by a file's path; and programs of
the edition that import labkit, or name a module of it, as `conftest.py` does. A file that is not
Python belongs to the edition if a module of its folder names it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from labkit.course.imports import reached_files

VERBS = "labkit/verbs/students.py"
_TEXTS = ("Makefile", ".yml", ".md")
_NAMED = re.compile(r"\b[\w.]+\.(?:js|css|json)\b")
_RUN = re.compile(r"-m (labkit[\w.]*)|\b(labkit/[\w/]+\.py)\b")


def code_of_edition(files: Mapping[str, bytes], root: Path) -> dict[str, bytes]:
    """Return the files of labkit, by path.

    Args:
        files: the other files of the edition, by path.
        root: the repository.

    Raises:
        OSError: a file that a text runs is missing.
        SyntaxError: a program is not Python.
    """
    texts = [data.decode() for name, data in files.items() if name.endswith(_TEXTS)]
    runs = [match for text in texts for match in _RUN.finditer(text)]
    roots = {VERBS, *(_file_of(run[1], root) if run[1] else run[2] for run in runs)}
    begin = {name: (root / name).read_bytes() for name in sorted(roots)}
    programs = [data for name, data in files.items() if name.endswith(".py")]
    reached = reached_files([*programs, *begin.values()], root)
    code = begin | {name: data for name, data in reached.items() if name.startswith("labkit/")}
    return code | {
        name: data for path in code for name, data in _files_beside(path, code[path], root)
    }


def _files_beside(path: str, source: bytes, root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a module's folder that the module names, by path."""
    for named in sorted({*_NAMED.findall(source.decode())}):
        place = (root / path).with_name(named)
        if place.is_file():
            yield place.relative_to(root).as_posix(), place.read_bytes()


def _file_of(module: str, root: Path) -> str:
    """Return the file that `python -m` runs for a module or a package."""
    place = module.replace(".", "/")
    return f"{place}.py" if (root / f"{place}.py").exists() else f"{place}/__main__.py"
