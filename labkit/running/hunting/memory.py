"""The traces of a run of tests in this process, taken back on a platform that cannot fork.

But: objects that a run changes in place, such as a list in a module of Python's library, stay
changed. A process of its own forgets these too.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from labkit.running.trace import EVENTS

_OURS = ("mini_vllm",)


@contextmanager
def forgetting() -> Iterator[None]:
    """Take back the names that the body sets in modules and on the classes of events."""
    before = {name: (module, dict(vars(module))) for name, module in _modules().items()}
    classes = {kind: dict(vars(kind)) for kind in EVENTS}
    try:
        yield
    finally:
        for module, names in before.values():
            _restore(module, vars(module), names)
        for kind, names in classes.items():
            _restore(kind, vars(kind), names)


def _modules() -> dict[str, Any]:
    """Return the modules that tests may import."""
    roots = {*sys.stdlib_module_names, *_OURS}
    return {
        name: module
        for name, module in sys.modules.copy().items()
        if module is not None and name.partition(".")[0] in roots
    }


def _restore(owner: Any, now: Any, names: dict[str, Any]) -> None:
    changed = [name for name in [*now] if name not in names or now[name] is not names[name]]
    for name in (*changed, *(name for name in names if name not in now)):
        # A few names of Python's own cannot be set.
        with suppress(AttributeError, TypeError):
            if name in names:
                setattr(owner, name, names[name])
            else:
                delattr(owner, name)
