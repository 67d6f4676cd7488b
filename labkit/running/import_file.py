"""Importing, without pytest, files of labs outside of any package, such as their tests."""

import functools
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any


def import_file(path: Path, name: str) -> ModuleType:
    """Return a file as a new module of this name; its exceptions are raised here."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def test_functions(path: Path) -> dict[str, Any]:
    """Return the names of a test file, its test functions among them, imported once."""
    return vars(import_file(path, f"tests_of_{path.parent.name}"))
