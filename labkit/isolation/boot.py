"""The program with which a worker's interpreter starts, as `python -c`: it imports from memory.

Standard input is a socket. It delivers a length in eight bytes, then, marshalled, the modules to
import from memory and the arguments of the zygote; see `labkit.isolation.zygote`. So no file of
labkit has to be in a place that a submission could see.
"""

import marshal
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Memory:
    """Finds and loads modules from memory.

    Args:
        modules: from a name to (whether it is a package, its file name in tracebacks, its code).
    """

    def __init__(self, modules: dict[str, tuple[bool, str, Any]]) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return importlib's specification of a module; None for other modules."""
        if name not in self._modules:
            return None
        package, filename, _ = self._modules[name]
        spec = ModuleSpec(name, self, origin=filename, is_package=package)  # type: ignore[arg-type]
        spec.has_location = True
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Let importlib make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        exec(self._modules[module.__name__][2], module.__dict__)


def _read(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


if __name__ == "__main__":
    modules, arguments = marshal.loads(_read(int.from_bytes(_read(8), "big")))
    sys.meta_path.insert(0, Memory(modules))
    # The variable is for this process only.
    os.environ.pop("LD_LIBRARY_PATH", None)
    from labkit.isolation.zygote import serve

    serve(*arguments)
