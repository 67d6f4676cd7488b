"""The front end of the site, from the folder `site`: npm installs it, and esbuild bundles it."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from labkit.errors import LabkitError, UsageError

_OLDEST_NODE = 18
_INSTALL = "On Debian and Ubuntu: apt-get install nodejs npm. On macOS: brew install node."


def install(source: Path) -> None:
    """Install the packages of `package-lock.json`, once.

    Args:
        source: the folder `site` of the repository.

    Raises:
        UsageError: node or npm is missing, or node is too old.
        LabkitError: npm failed.
    """
    _check_tools()
    digest = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()[:16]
    stamp = source / "node_modules" / f".installed-{digest}"
    if stamp.exists():
        return
    print("Installing site/package-lock.json ...", flush=True)
    _run(["npm", "ci", "--silent"], source, "Check the network, then run the same command again.")
    stamp.touch()


def run_program(source: Path, program: str, folder: Path) -> None:
    """Run a program of the front end on a folder of a site; the program says what it writes there.

    Raises:
        LabkitError: it failed.
    """
    _run(["node", program, str(folder.resolve())], source)


def test(source: Path) -> None:
    """Run the tests that need no browser.

    Raises:
        LabkitError: a test failed; the message is the runner's.
    """
    _run(["npm", "test", "--silent"], source)


def _check_tools() -> None:
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise UsageError(f"{tool} was not found, and building the site needs it. {_INSTALL}")
    version = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, check=False
    ).stdout
    major = version.strip().lstrip("v").partition(".")[0]
    if not major.isdecimal() or int(major) < _OLDEST_NODE:
        version = version.strip()
        raise UsageError(f"node is {version!r}, but must be {_OLDEST_NODE} or newer. {_INSTALL}")


def _run(command: list[str], folder: Path, advice: str = "") -> None:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        output = f"{ran.stdout}{ran.stderr}".strip()
        name = " ".join(command[:2])
        raise LabkitError(f"`{name}` failed in site/:\n{output}\n{advice}".rstrip())
