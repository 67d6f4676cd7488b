"""The sources that a worker was told, as modules: the submission, and the parts it builds on.

But: it reads no files. What is not told is not there.
"""

from types import ModuleType
from typing import Any

from labkit.errors import LoadFailure
from labkit.running.source import load_source


class Modules:
    """Finds names in the submission, then in its parts.

    Args:
        main: the name of the submission among `sources`.
        sources: from a name to (how messages name the file, its path, its bytes).
        parts: from a class to a name.
    """

    def __init__(
        self, main: str, sources: dict[str, tuple[str, str, bytes]], parts: dict[str, str]
    ) -> None:
        self._main = main
        self._sources = sources
        self._parts = parts
        self._modules: dict[str, ModuleType | LoadFailure] = {}

    def load(self) -> str | None:
        """Import the submission, once; return why that failed, or None."""
        try:
            self._module(self._main)
        except LoadFailure as failure:
            return str(failure)
        return None

    def resolve(self, name: str) -> Any:
        """Return the object called `name`.

        Raises:
            AttributeError: neither the submission nor a part has it.
            LoadFailure: the module that should have it could not be imported.
        """
        module = self._module(self._main)
        if not hasattr(module, name) and name in self._parts:
            module = self._module(self._parts[name])
        if not hasattr(module, name):
            raise AttributeError(f"{self._sources[self._main][0]} has no {name!r}")
        return getattr(module, name)

    def _module(self, key: str) -> ModuleType:
        if key not in self._modules:
            shown, filename, data = self._sources[key]
            try:
                self._modules[key] = load_source(data, shown, filename, f"under_test.{key}")
            except LoadFailure as error:
                self._modules[key] = error
        module = self._modules[key]
        if isinstance(module, LoadFailure):
            raise module
        return module
