"""Which file is under test (`LAB_IMPL`), and importing it so that its author understands what
fails.

But: it does not isolate. The module runs in this process.
"""

import ast
import hashlib
import linecache
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from labkit.errors import LoadFailure, UsageError
from labkit.lab import Bug, Lab

ALLOWED = "starter, solution, bug:NAME, or the path of a Python file"
_SHARED = "mini_vllm.text.events"


@dataclass(frozen=True)
class Implementation:
    """The code under test.

    Attributes:
        kind: `solution`, `starter`, `bug` or `path`.
        path: the file it comes from (for a bug: the solution that is edited).
        bug: the bug that is planted, if any.
    """

    kind: str
    path: Path
    bug: Bug | None = None

    @property
    def title(self) -> str:
        """How reports name it."""
        return f"{self.path.name} with bug {self.bug.name!r}" if self.bug else self.path.name

    @property
    def is_reference(self) -> bool:
        """Whether this is the course's own solution rather than somebody's work."""
        return self.kind in ("solution", "bug")

    def source(self) -> bytes:
        """Return the bytes of the code, with the bug planted.

        Raises:
            LoadFailure: the file is missing.
        """
        try:
            data = self.path.read_bytes()
        except OSError as error:
            fix = "`make reset` brings the starter back" if self.kind == "starter" else "check it"
            raise LoadFailure(f"{self.path} cannot be read ({error.strerror}): {fix}") from None
        if self.bug is None:
            return data
        find, replace = self.bug.find.encode(), self.bug.replace.encode()
        if data.count(find) != 1:
            raise LoadFailure(
                f"bug {self.bug.name!r}: `find` occurs {data.count(find)} times in "
                f"{self.path.name}, it must occur exactly once"
            )
        return data.replace(find, replace)


def short_hash(data: bytes) -> str:
    """Return the 8 hex digits by which reports and progress know a file."""
    return hashlib.sha256(data).hexdigest()[:8]


def choose(value: str | None, labs: list[Lab], cwd: Path) -> dict[Path, Implementation]:
    """Return what `LAB_IMPL=value` means for each lab, by lab folder. Unset or empty: the solution.

    Raises:
        UsageError: the value is not allowed, or names one file while several labs are collected.
    """
    value = (value or "").strip()
    if value in ("", "solution"):
        return {lab.path: Implementation("solution", lab.solution) for lab in labs}
    if value == "starter":
        return {lab.path: Implementation("starter", lab.starter) for lab in labs}
    path = cwd / value
    if not value.startswith("bug:") and not path.is_file():
        raise UsageError(f"LAB_IMPL={value!r} is neither a known word nor a file; use {ALLOWED}")
    if len(labs) > 1:
        raise UsageError(
            f"LAB_IMPL={value!r} is for one lab, but {len(labs)} labs are collected: "
            "name one lab's folder on the command line"
        )
    return {lab.path: _choose_one(value, path, lab) for lab in labs}


def _choose_one(value: str, path: Path, lab: Lab) -> Implementation:
    if not value.startswith("bug:"):
        return Implementation("path", path.resolve())
    name = value.removeprefix("bug:")
    for bug in lab.bugs:
        if bug.name == name:
            return Implementation("bug", lab.solution, bug)
    have = ", ".join(bug.name for bug in lab.bugs) or "none"
    raise UsageError(f"LAB_IMPL={value!r}: {lab.name} has no such bug; it has: {have}")


def load(implementation: Implementation, name: str) -> ModuleType:
    """Import the code under test as module `name`.

    Raises:
        LoadFailure: it does not parse, imports what a lab may not import, or stops while imported.
    """
    path = implementation.path
    data = implementation.source()
    tree = _parse(data, path)
    _check_tree(tree, path)
    module = ModuleType(name)
    # Python shows the lines of a traceback through linecache, also those of a planted bug.
    filename = str(path) if implementation.bug is None else f"{path}[{implementation.bug.name}]"
    text = data.decode("utf-8", "replace")
    linecache.cache[filename] = (len(data), None, text.splitlines(keepends=True), filename)
    module.__file__ = filename
    sys.modules[name] = module
    try:
        exec(compile(tree, filename, "exec"), module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # The time limit of pytest-timeout arrives here too: it is no Exception.
        raise LoadFailure(f"{path.name} {_stopped(error, filename)}") from None
    return module


def last_line_in(error: BaseException, filename: str) -> tuple[int, str] | None:
    """Return the deepest line of `filename` in the error's traceback: its number and text."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [(f.lineno or 0, f.line or "") for f in frames if f.filename == filename]
    return lines[-1] if lines else None


def _stopped(error: BaseException, filename: str) -> str:
    where = last_line_in(error, filename)
    at = f" at line {where[0]} (`{where[1].strip()}`)" if where else ""
    if isinstance(error, SystemExit):
        return f"called exit{at} while it was imported: remove that call"
    if str(error).startswith("Timeout"):
        return f"was still running{at} when the time limit came: is there an endless loop?"
    return f"stopped{at} while it was imported: {type(error).__name__}: {error}"


def _parse(data: bytes, path: Path) -> ast.Module:
    try:
        return ast.parse(data, str(path))
    except SyntaxError as error:
        line = f"\n    {error.text.rstrip()}" if error.text else ""
        caret = f"\n    {' ' * (error.offset - 1)}^" if line and error.offset else ""
        raise LoadFailure(
            f"{path.name} line {error.lineno} is not valid Python: {error.msg}{line}{caret}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LoadFailure(f"{path.name} is not valid Python: {error}") from None


def check_imports(path: Path) -> None:
    """Check that the file imports only what a lab's code may import.

    Raises:
        LoadFailure: it imports something else, or does not parse.
    """
    _check_tree(_parse(path.read_bytes(), path), path)


def _check_tree(tree: ast.Module, path: Path) -> None:
    for line, module in sorted(_imports(tree)):
        if module == _SHARED or module.split(".")[0] in sys.stdlib_module_names:
            continue
        raise LoadFailure(
            f"{path.name} line {line} imports {module!r}: a lab's code may import the standard "
            f"library and {_SHARED}, nothing else. The point is to build the rest yourself"
        )


def _imports(tree: ast.Module) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [f"{module}.{alias.name}" for alias in node.names]
            shared = module == "mini_vllm.text" and names == [_SHARED]
            found.append((node.lineno, _SHARED if shared else module))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = ast.unparse(node.func).rpartition(".")[2]
            if function in ("import_module", "__import__"):
                found.append((node.lineno, str(node.args[0].value)))
    return found
