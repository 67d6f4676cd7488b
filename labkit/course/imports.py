"""Which files of the course a file imports, directly or through others.

The files are derived from the sources, not listed. So a sandbox, a package and a digest
include every new file at once.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from pathlib import Path

_PACKAGES = ("labkit", "mini_vllm")
_MODULE = re.compile(rf"({'|'.join(_PACKAGES)})(\.\w+)+")


def imported_files(roots: Iterable[Path], course: Path) -> dict[str, bytes]:
    """Return the files of the course's packages that files import, by path below `course`.

    Imports inside functions count; imports for type checkers only do not. The result includes the
    roots that are in a package.

    Args:
        roots: the files to begin with.
        course: the folder that holds the packages.

    Raises:
        OSError: a file cannot be read.
        SyntaxError: a file is not Python.
    """
    files: dict[str, bytes] = {}
    waiting = set[str]()
    for root in roots:
        data = root.read_bytes()
        if root.is_relative_to(course) and root.relative_to(course).parts[0] in _PACKAGES:
            files[root.relative_to(course).as_posix()] = data
        waiting |= direct_imports(data)
    files |= _followed(waiting, course, direct_imports)
    return dict(sorted(files.items()))


def reached_files(sources: Iterable[bytes], course: Path) -> dict[str, bytes]:
    """Return the files of the course's packages that programs import or name, by path.

    A string that is a module's name counts as an import, because late imports use such strings:
    the plugins of pytest and the verbs of the command line.

    Args:
        sources: the programs.
        course: the folder that holds the packages.

    Raises:
        OSError: a file cannot be read.
        SyntaxError: a program is not Python.
    """

    def reached(source: bytes) -> frozenset[str]:
        return direct_imports(source) | named_modules(source)

    files = _followed(set[str]().union(*map(reached, sources)), course, reached)
    return dict(sorted(files.items()))


def _followed(
    waiting: set[str], course: Path, follow: Callable[[bytes], Collection[str]]
) -> dict[str, bytes]:
    """Return the files at these paths, and all files that they lead to."""
    files: dict[str, bytes] = {}
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        try:
            with open(f"{course}/{name}", "rb") as file:
                files[name] = file.read()
        except (FileNotFoundError, NotADirectoryError):
            # A name that is imported from a module need not be a module.
            continue
        waiting |= {*follow(files[name])} - seen
    return files


@lru_cache(maxsize=512)
def direct_imports(source: bytes) -> frozenset[str]:
    """Return the possible paths of the course's modules that a source imports, with packages."""
    modules: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            # An import is a statement, so expressions are skipped.
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                waiting += getattr(node, part, ())
    return frozenset[str]().union(*map(_places, modules))


@lru_cache(maxsize=512)
def named_modules(source: bytes) -> frozenset[str]:
    """Return the possible paths of the course's modules whose names are strings of a source."""
    nodes = ast.walk(ast.parse(source))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    names = [text for text in texts if isinstance(text, str) and _MODULE.fullmatch(text)]
    return frozenset[str]().union(*map(_places, names))


def _places(module: str) -> frozenset[str]:
    """Return the possible paths of a module and its packages, if it is one of the course's."""
    parts = module.split(".")
    ends = range(1, len(parts) + 1 if parts[0] in _PACKAGES else 0)
    paths = ["/".join(parts[:end]) for end in ends]
    return frozenset(f"{path}{rest}" for path in paths for rest in (".py", "/__init__.py"))


def imported_modules(source: bytes, course: Path, without: Collection[str] = ()) -> list[str]:
    """Return the modules of the course's packages that a source imports, as files below `course`.

    Each is after those that it imports itself, so that they can be executed in this order. Packages
    are left out.

    Args:
        source: the source to begin with.
        course: the folder that holds the packages.
        without: names of modules that are neither listed nor followed.

    Raises:
        OSError: a file cannot be read.
        SyntaxError: a file is not Python.
    """
    skipped = {f"{name.replace('.', '/')}.py" for name in without}
    modules: dict[str, None] = {}

    def visit(data: bytes) -> None:
        for name in sorted(direct_imports(data)):
            if name in skipped or name.endswith("/__init__.py") or not (course / name).is_file():
                continue
            skipped.add(name)
            visit((course / name).read_bytes())
            modules[name] = None

    visit(source)
    return [*modules]
