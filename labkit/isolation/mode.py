"""The mode of grading: the requested mode, if it works here and hides the private files."""

import os
from collections.abc import Iterable
from pathlib import Path

from labkit.errors import InfrastructureError, UsageError
from labkit.isolation import bubblewrap
from labkit.isolation.library import python_library
from labkit.isolation.sandbox import Sandbox

_HERE = Path(__file__).resolve().parents[2]


def choose_mode(*, trust: bool, container: bool, unseen: Iterable[Path | None] = ()) -> str:
    """Return the mode to use; the default is the sandbox.

    Args:
        trust: whether submissions are your own code.
        container: whether this machine is a disposable container.
        unseen: the files that submissions must not see, besides this course.

    Raises:
        UsageError: the mode does not work here, or submissions would see private files; the message
            says what to do.
    """
    if trust:
        return "trust"
    mode = "container" if container else "sandbox"
    if container and os.geteuid() != 0:
        raise UsageError("--container needs root: it runs submissions as another user")
    try:
        with Sandbox(mode) as sandbox:
            sandbox.start().stop()
    except InfrastructureError as error:
        if container:
            raise
        raise UsageError(
            f"submissions cannot be walled in: {bubblewrap.what_to_do(str(error))}"
        ) from None
    refuse_if_visible([_HERE, *(path for path in unseen if path is not None)])
    return mode


def refuse_if_visible(paths: Iterable[Path]) -> None:
    """Check that submissions cannot see some files: the course, a ledger, an overlay.

    Args:
        paths: the paths that must not be seen; they need not exist.

    Raises:
        UsageError: a path is in Python's library, which submissions can read.
    """
    library = python_library()
    for path in paths:
        real = Path(os.path.realpath(path))
        above = {str(real), *map(str, real.parents)}
        for shown in map(os.path.realpath, library.folders):
            if shown in above and not above & {*map(os.path.realpath, library.hidden)}:
                raise UsageError(
                    f"{path} is in Python's library ({shown}), which submissions can read: move it "
                    "elsewhere, for example into your home folder"
                )
