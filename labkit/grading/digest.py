"""What tells two gradings apart, as SHA-256: fields that cannot be confused, files that matter.

The files that can move a grade are found, not listed: whatever the roots import, directly or
through others. So an edited report or server voids no ledger, and a new helper of the grader is
counted from its first day.
"""

import ast
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

_PACKAGES = ("labkit", "mini_vllm")


def digest_of(*fields: tuple[str | bytes, ...]) -> str:
    """Return the SHA-256 of fields, each a tag and its values, as hexadecimal digits.

    Every count and length is hashed before what it counts, so no two lists of fields are hashed as
    the same bytes.
    """
    hash = sha256(b"%d\n" % len(fields))
    for field in fields:
        hash.update(b"%d\n" % len(field))
        for value in field:
            data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            hash.update(b"%d\n" % len(data))
            hash.update(data)
    return hash.hexdigest()


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
    found: dict[str, bytes] = {}
    seen: set[str] = set()
    waiting = set[str]()
    for root in roots:
        data = root.read_bytes()
        if root.is_relative_to(course) and root.relative_to(course).parts[0] in _PACKAGES:
            found[root.relative_to(course).as_posix()] = data
        waiting |= _imports(data)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        try:
            with open(f"{course}/{name}", "rb") as file:
                found[name] = file.read()
        except (FileNotFoundError, NotADirectoryError):
            # What is imported from a module need not be a module.
            continue
        waiting |= _imports(found[name]) - seen
    return dict(sorted(found.items()))


@lru_cache(maxsize=512)
def _imports(source: bytes) -> frozenset[str]:
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
