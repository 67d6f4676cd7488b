"""Importing the code under test from its bytes, with error messages for its author.

It needs only the standard library, because it also runs in the process that holds a submission,
which can reach nothing else.

But: it isolates nothing. The module runs in this process.
"""

import ast
import codecs
import functools
import linecache
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import NamedTuple

from labkit.errors import LoadFailure

# Changes a source before it is compiled.
Rewrite = Callable[[ast.Module], ast.Module]
# The longest source that the grader reads, in bytes. The references have less than 8 kB. This does
# not keep tables of answers out: one for seed 0 of lab 02 has about 30 kB. The secret seed does.
MOST_SOURCE_BYTES = 64 << 10
KEEP_SHORT = "hand in your code only, without tables or data"
# The modules that a lab's code may import if the lab is unknown.
GIVEN = ("mini_vllm.text.events",)
# The course's own programs may also try to import these; a worker does not have them.
_FOR_PROGRAMS = ("tokenizers",)
_MARK = "__is_given__"
# Parts of the errors by which a browser's Python refuses a call, and the reason in words.
_REFUSALS = {
    "stack switch": "cannot run an event loop of yours",
    "can't start new thread": "has no threads",
}
# The text of the error that `input()` raises if there is no input.
_END_OF_INPUT = "EOF when reading a line"


class Given(NamedTuple):
    """The given modules, programs and files of a lab's code.

    Attributes:
        modules: the modules that the code may import, besides Python's library.
        programs: the name in messages, the path and the bytes of each. They share one namespace.
        files: the files that the programs read, by name.
    """

    modules: tuple[str, ...] = GIVEN
    programs: tuple[tuple[str, str, bytes], ...] = ()
    files: Mapping[str, bytes] = {}


def load_source(
    data: bytes,
    shown: str,
    filename: str,
    name: str,
    importable: Collection[str] | None = GIVEN,
    rewrite: Rewrite | None = None,
    code: CodeType | None = None,
) -> ModuleType:
    """Import `data` as module `name`.

    Args:
        data: the source.
        shown: the file's name in messages.
        filename: its name in tracebacks.
        name: of the module.
        importable: the modules that it may import, besides Python's library; None if its imports
            have been checked.
        rewrite: changes the source, if its imports are checked; see `labkit.running.hunting`.
        code: of the source, if it has been compiled before.

    Raises:
        LoadFailure: it does not parse, imports a forbidden module, or stops while imported.
    """
    module = ModuleType(name)
    module.__file__ = filename
    if code is None:
        code = compile_source(data, shown, filename, importable, rewrite)
    _execute(module, data, shown, filename, code)
    return module


def too_long(data: bytes, shown: str) -> str | None:
    """Return why the grader does not read a source of this size; None if it does."""
    if len(data) <= MOST_SOURCE_BYTES:
        return None
    most = f"the grader reads at most {MOST_SOURCE_BYTES:,}"
    return f"{shown} has {len(data):,} bytes, and {most}: {KEEP_SHORT}"


def compile_source(
    data: bytes,
    shown: str,
    filename: str,
    importable: Collection[str] | None = GIVEN,
    rewrite: Rewrite | None = None,
) -> CodeType:
    """Check and compile `data`, so that `load_source` need not; take the same arguments.

    Raises:
        LoadFailure: it does not parse, or imports a forbidden module.
    """
    may = None if importable is None else tuple(importable)
    return _compiled(data, shown, filename, may, rewrite)


def load_given(given: Given, name: str) -> ModuleType:
    """Import the given programs, one after the other, as one module.

    The module has the files as `FILES` before the first program is run.

    Raises:
        LoadFailure: as `load_source` does.
    """
    module = ModuleType(name)
    vars(module).update({"FILES": dict(given.files), _MARK: True})
    for shown, filename, data in given.programs:
        code = compile_source(data, shown, filename, (*given.modules, *_FOR_PROGRAMS))
        _execute(module, data, shown, filename, code)
    return module


def is_given(names: Mapping[str, object]) -> bool:
    """Return whether these are the names of a module that `load_given` made."""
    return _MARK in names


def _execute(module: ModuleType, data: bytes, shown: str, filename: str, code: CodeType) -> None:
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    # Python reads the lines of a traceback from linecache, even for code that is not in a file.
    linecache.cache[filename] = (len(data), None, lines, filename)
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # A time limit's exception arrives here too: it is not derived from Exception.
        if isinstance(error, MemoryError):
            # Both hold the values that fill the memory, and the message takes some.
            vars(module).clear()
            traceback.clear_frames(error.__traceback__)
        where = last_line_in(error, filename)
        raise LoadFailure(
            f"{shown} {_stopped(error, where)}", where[0] if where else None
        ) from None


@functools.lru_cache(maxsize=64)
def _compiled(
    data: bytes,
    shown: str,
    filename: str,
    importable: tuple[str, ...] | None,
    rewrite: Rewrite | None,
) -> CodeType:
    """Return the code of a source, with its imports checked.

    A hunt runs one source many times.
    """
    source: ast.Module | bytes = data
    if importable is not None:
        source = _parse(data, shown)
        _check_tree(source, shown, importable)
        if rewrite is not None:
            source = rewrite(source)
    with _in_words(shown):
        code: CodeType = compile(source, filename, "exec")
    return code


def check_imports(data: bytes, shown: str, importable: Collection[str] = GIVEN) -> None:
    """Check that a source imports only modules that a lab's code may import.

    Raises:
        LoadFailure: it imports something else, or does not parse.
    """
    _check_tree(_parse(data, shown), shown, importable)


def last_line_in(error: BaseException, filename: str) -> tuple[int, str] | None:
    """Return the deepest line of `filename` in the error's traceback: its number and text."""
    frames = traceback.extract_tb(error.__traceback__)
    # A signal may arrive between two lines; then there is no line to show.
    lines = [(f.lineno, f.line) for f in frames if f.filename == filename and f.lineno and f.line]
    return lines[-1] if lines else None


def _stopped(error: BaseException, where: tuple[int, str] | None) -> str:
    at = f" at line {where[0]} (`{where[1].strip()}`)" if where else ""
    if isinstance(error, SystemExit):
        return f"called exit{at} while it was imported: remove that call"
    if str(error).startswith("Timeout"):
        return f"was still running{at} at the time limit: is there an endless loop?"
    return f"stopped{at} while it was imported: {type(error).__name__}: {text_of(error)}"


def text_of(error: BaseException) -> str:
    """Return the text of an error; for a read of standard input, and for code that a browser cannot
    run, advice in place of pytest's or Python's text.
    """
    text = str(error)
    if sys.platform == "emscripten":
        for part, words in _REFUSALS.items():
            if part in text:
                return f"a browser's Python {words}: try this call in a checkout of the course"
    if "reading from stdin while output is captured" in text or text == _END_OF_INPUT:
        return "there is no input while tests run: use the arguments in place of `input()`"
    return text


def _parse(data: bytes, shown: str) -> ast.Module:
    _check_encoding(data, shown)
    with _in_words(shown):
        return ast.parse(data, shown)


@contextmanager
def _in_words(shown: str) -> Iterator[None]:
    """Turn the errors of compiling in the body into a `LoadFailure`."""
    try:
        yield
    except SyntaxError as error:
        # An unknown encoding is of no line, or of line 0.
        where = f" line {error.lineno}" if error.lineno else ""
        line = f"\n    {error.text.rstrip()}" if error.text else ""
        caret = f"\n    {' ' * (error.offset - 1)}^" if line and error.offset else ""
        raise LoadFailure(
            f"{shown}{where} is not valid Python: {error.msg}{line}{caret}",
            error.lineno or None,
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LoadFailure(f"{shown} is not valid Python: {error}") from None


def _check_encoding(data: bytes, shown: str) -> None:
    """Explain the encodings that the parser would only reject for their null bytes."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise LoadFailure(f"{shown} is saved as UTF-16: save it as UTF-8")
    if (where := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, where) + 1
        raise LoadFailure(
            f"{shown} line {line} has a NUL character, which Python does not allow: delete it (in "
            "a string, write \\0). If the file has many, save it as UTF-8",
            line,
        )


def _check_tree(tree: ast.Module, shown: str, importable: Collection[str]) -> None:
    for line, module in sorted(_imports(tree, importable)):
        if module in importable or module.split(".")[0] in sys.stdlib_module_names:
            continue
        may = " and ".join(["the standard library", *importable])
        raise LoadFailure(
            f"{shown} line {line} imports {module!r}: a lab's code may import only {may}. "
            "Everything else that it needs is passed to it",
            line,
        )


def _imports(tree: ast.Module, importable: Collection[str]) -> list[tuple[int, str]]:
    imports: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [f"{module}.{alias.name}" for alias in node.names]
            imports += ((node.lineno, name if name in importable else module) for name in names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
            if function in ("import_module", "__import__"):
                imports.append((node.lineno, str(node.args[0].value)))
    return imports
