"""The test functions of a lab, as a module that is imported without pytest."""

import functools
import importlib.util
from pathlib import Path
from typing import Any


@functools.cache
def test_functions(path: Path) -> dict[str, Any]:
    """Return the names of a test file, its test functions among them, imported once."""
    spec = importlib.util.spec_from_file_location(f"tests_of_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)
