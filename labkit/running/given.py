"""The given programs of a lab, for its code and its tests, and the files that they read.

The `[given]` table of `lab.toml` names them. Code under test imports none of this; tests make it by
name, as in `lab.new("given.tokenizer", "bpe")`, and pass it as an argument.
"""

import functools
import os
from types import ModuleType

from labkit.course.lab import FACTS, Lab
from labkit.errors import LabFolderError, UsageError
from labkit.running.source import Given, load_given


def read_given(lab: Lab, *, own: bool = False) -> Given:
    """Return the given programs and files of a lab.

    Args:
        lab: the lab.
        own: whether to add the files that environment variables name.

    Raises:
        LabFolderError: a file is missing.
        UsageError: a variable names a file that cannot be read or used.
    """
    programs, files = [], {}
    for path in lab.given_files:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise LabFolderError(
                f"{lab.path / FACTS}: [given] names {path}: {error.strerror}"
            ) from None
        if path.suffix == ".py":
            programs.append((path.name, str(path), data))
        else:
            files[path.name] = data
    named = {v: name for v, name in lab.given_own.items() if own and os.environ.get(v)}
    files |= {name: _own(variable) for variable, name in named.items()}
    given = Given(lab.given, tuple(programs), files)
    for variable, name in named.items():
        _check(given, variable, name)
    return given


def _check(given: Given, variable: str, name: str) -> None:
    """Have the programs check the file that a variable names, by their `check_file(name)`."""
    check = getattr(for_tests(given), "check_file", None)
    try:
        if check is not None:
            check(name)
    except ValueError as error:
        raise UsageError(
            f"{variable}={os.environ[variable]!r} cannot be used: {error}; give another file, or "
            f"leave {variable} out"
        ) from None


def _own(variable: str) -> bytes:
    path = os.environ[variable]
    try:
        with open(os.path.expanduser(path), "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(
            f"{variable}={path!r} cannot be read ({error.strerror}); give the path of a file, from "
            f"{os.getcwd()} or absolute, or leave {variable} out"
        ) from None


def for_tests(given: Given) -> ModuleType:
    """Return the given programs as the tests' own module, which no code under test can change.

    Raises:
        LoadFailure: it cannot be imported.
    """
    return _for_tests(given.modules, given.programs, tuple(given.files.items()))


@functools.lru_cache(maxsize=16)
def _for_tests(
    modules: tuple[str, ...],
    programs: tuple[tuple[str, str, bytes], ...],
    files: tuple[tuple[str, bytes], ...],
) -> ModuleType:
    return load_given(Given(modules, programs, dict(files)), "given_to_tests")
