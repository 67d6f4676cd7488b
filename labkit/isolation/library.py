"""The files of this machine that Python needs, and that a submission may therefore see.

They are its library without the packages that are installed in it, its extension modules, the
shared libraries of the modules and of the interpreter, and the files that the loader reads.
"""

import functools
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import InfrastructureError

# Like -I, but PYTHONHASHSEED counts.
_FLAGS = ("-s", "-P", "-S", "-B")
_INSTALLED = ("site-packages", "dist-packages")
# The parts of the library that take much room and that no lab needs.
_LEFT_OUT = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data"),
    *("config-*", "*.opt-*.pyc", "*.a"),
)
_PROBE_SECONDS = 60
# The latest time that all file systems know.
_LATEST_NS = (2**31 - 1) * 10**9
# Loads each extension module, except those for Windows and for tests of Python itself, and queries
# the loader for the names of the files.
_PROBE = """
import ctypes, json, os, sys
folders = [path for path in sys.path if os.path.isdir(path)]
modules = {}
for folder in folders:
    for file in sorted(os.listdir(folder)):
        name = file.partition(".")[0]
        unwanted = name == "_tkinter" or "test" in name or name.startswith("xx")
        if unwanted or not file.endswith(".so"):
            continue
        try:
            ctypes.CDLL(os.path.join(folder, file))
        except OSError:
            continue
        modules[name] = os.path.join(folder, file)
class Object(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
names = []
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Object), ctypes.c_size_t, ctypes.c_void_p)
def note(found, size, data):
    names.append(os.fsdecode(found.contents.name))
    return 0
ctypes.CDLL(None).dl_iterate_phdr(note, None)
print(json.dumps([[path for path in sys.path if os.path.exists(path)], modules, names]))
"""
_LOADER_READS = ("/etc/ld.so.cache", "/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path")


@dataclass(frozen=True)
class Library:
    """The files that Python needs, by absolute path.

    Attributes:
        folders: the folders of its library; packages are installed within.
        files: the interpreter, shared libraries, and files that the loader reads.
        modules: by name, the extension modules that load outside the walls.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...]
    modules: dict[str, str]

    @property
    def hidden(self) -> list[str]:
        """The folders of installed packages, which no submission may see, and the omitted parts."""
        left_out = shutil.ignore_patterns(*_INSTALLED, *_LEFT_OUT)
        places = [
            os.path.join(top, name)
            for top in self.folders
            for name in sorted(left_out(top, os.listdir(top)))
        ]
        return [place for place in places if os.path.isdir(place)]

    def copy_to(self, root: Path) -> None:
        """Put all files but the interpreter under the same paths in `root`, readable by all users.

        Raises:
            InfrastructureError: the disk is full.
        """
        try:
            left_out = shutil.ignore_patterns(*_INSTALLED, *_LEFT_OUT)
            for folder in self.folders:
                shutil.copytree(folder, f"{root}{folder}", ignore=left_out, copy_function=_place)
            for file in self.files[1:]:
                os.makedirs(os.path.dirname(f"{root}{file}"), exist_ok=True)
                _place(file, f"{root}{file}")
            for path, _, _ in os.walk(root):
                os.chmod(path, 0o755)
                _let_readers_leave_no_mark(path)
        except OSError as error:
            why = error.strerror
            if isinstance(error, shutil.Error):
                # A list of errors, each with its files and a text.
                why = str(error.args[0][0][2])
            raise InfrastructureError(
                f"Python's library cannot be copied to {root}: {why}. Free some space there, or "
                "set TMPDIR to another folder"
            ) from None


def _place(source: str, target: str) -> None:
    """Link or copy a file. Only users who can write to the file can write through the link."""
    is_linked = False
    if os.stat(source).st_mode & stat.S_IROTH:
        with suppress(OSError):
            os.link(os.path.realpath(source), target)
            is_linked = True
    if not is_linked:
        shutil.copyfile(source, target)
        os.chmod(target, 0o644)
    _let_readers_leave_no_mark(target)


def _let_readers_leave_no_mark(path: str) -> None:
    """Set the time of a file's last reading so late that no reading changes it.

    Linux records a reading if the last reading was before a change, or a day ago. If a file system
    is mounted with `strictatime`, Linux records every reading.
    """
    os.utime(path, ns=(_LATEST_NS, os.stat(path).st_mtime_ns))


def python_command() -> list[str]:
    """Return the command that starts the interpreter alone, without packages."""
    return [os.path.realpath(sys._base_executable), *_FLAGS]  # type: ignore[attr-defined]


def python_environment() -> dict[str, str]:
    """Return its environment: the same order of sets in each run, and the same encoding."""
    own = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    # A Python that was built by hand may find its libraries only by this variable.
    return {**own, **{name: os.environ[name] for name in ["LD_LIBRARY_PATH"] if name in os.environ}}


@functools.cache
def python_library() -> Library:
    """Return the files that Python needs, determined once by starting it.

    Raises:
        InfrastructureError: Python does not start.
    """
    command = python_command()
    try:
        done = subprocess.run(
            [*command, "-c", _PROBE],
            env=python_environment(), cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=_PROBE_SECONDS, check=True,
        )  # fmt: skip
        paths, modules, names = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InfrastructureError(f"Python does not start alone: {error}") from None
    folders = tuple(path for path in paths if os.path.isdir(path))
    folders = tuple(path for path in folders if not _is_within(path, folders))
    files = [*(path for path in paths if os.path.isfile(path)), *names, *_LOADER_READS]
    unique = dict.fromkeys(os.path.normpath(path) for path in files if path.startswith("/"))
    files = [path for path in unique if os.path.exists(path) and not _is_within(path, folders)]
    return Library(folders, (command[0], *files), modules)


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{folder}/") for folder in folders)
