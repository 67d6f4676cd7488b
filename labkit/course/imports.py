"""Which files of the course a file imports, directly or through others.

They are derived from the sources, not listed: what crosses into a sandbox, what is packed, and what
a digest counts are complete from a new file's first day.
"""

import ast
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

_PACKAGES = ("labkit", "mini_vllm")


def imported_files(roots: Iterable[Path], course: Path) -> dict[str, bytes]:
    """Return the files of the course's packages that files import, by path below `course`.

    Imports inside functions count, those for type checkers only do not. The roots are among the
    answers if they lie in a package.

    Args:
        roots: where to begin.
        course: the folder that holds the packages.

    Raises:
        OSError: a file cannot be read.
        SyntaxError: a file is not Python.
    """
    files: dict[str, bytes] = {}
    seen: set[str] = set()
    waiting = set[str]()
    for root in roots:
        data = root.read_bytes()
        if root.is_relative_to(course) and root.relative_to(course).parts[0] in _PACKAGES:
            files[root.relative_to(course).as_posix()] = data
        waiting |= direct_imports(data)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        try:
            with open(f"{course}/{name}", "rb") as file:
                files[name] = file.read()
        except (FileNotFoundError, NotADirectoryError):
            # What is imported from a module need not be a module.
            continue
        waiting |= direct_imports(files[name]) - seen
    return dict(sorted(files.items()))


@lru_cache(maxsize=512)
def direct_imports(source: bytes) -> frozenset[str]:
    """Return where the course's modules may lie that a source imports, their packages included."""
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
            # An import is a statement, so expressions are left alone.
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                waiting += getattr(node, part, ())
    places = set[str]()
    for module in modules:
        parts = module.split(".")
        for end in range(1, len(parts) + 1 if parts[0] in _PACKAGES else 0):
            place = "/".join(parts[:end])
            places |= {f"{place}.py", f"{place}/__init__.py"}
    return frozenset(places)


def imported_modules(source: bytes, course: Path, without: Collection[str] = ()) -> list[str]:
    """Return the modules of the course's packages that a source imports, as files below `course`.

    Each is after those that it imports itself, so that they can be executed in this order. Packages
    are left out.

    Args:
        source: where to begin.
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
