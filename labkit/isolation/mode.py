"""Which mode grading uses: the one that is asked for, if it works here and hides what it must."""

import os
from collections.abc import Iterable
from pathlib import Path

from labkit.errors import InfrastructureError, UsageError
from labkit.isolation import bubblewrap
from labkit.isolation.library import python_library
from labkit.isolation.sandbox import Sandbox

_HERE = Path(__file__).resolve().parents[2]


def choose_mode(*, trust: bool, container: bool, unseen: Iterable[Path | None] = ()) -> str:
    """Return the mode to use: the sandbox, unless told otherwise.

    Args:
        trust: whether submissions are one's own code.
        container: whether this machine is a container that is thrown away.
        unseen: what submissions must not see, besides this course.

    Raises:
        UsageError: it does not work here, or submissions would see what they must not; the message
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
        paths: what must not be seen; it need not exist.

    Raises:
        UsageError: one lies in Python's library, where submissions read.
    """
    library = python_library()
    for path in paths:
        real = Path(os.path.realpath(path))
        above = {str(real), *map(str, real.parents)}
        for shown in map(os.path.realpath, library.folders):
            if shown in above and not above & {*map(os.path.realpath, library.hidden)}:
                raise UsageError(
                    f"{path} lies in Python's library ({shown}), which submissions can read: move "
                    "it elsewhere, for example into your home folder"
                )
