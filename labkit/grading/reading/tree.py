"""The submitted files as a tree, from a folder or a zip, read only on demand.

Only plain files of a reasonable size are read. Others are refused with a message for their author:
a link, a pipe, a path that leads out, a file that is too long, encrypted or damaged.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labkit.running.source import KEEP_SHORT

MOST_FILES = 20_000
MOST_DEPTH = 8
# Left behind by systems and tools, never handed in.
_JUNK = frozenset(["__MACOSX", "__pycache__", "node_modules", "Thumbs.db", "desktop.ini"])


class Refused(Exception):
    """The file is not read; the message tells its author why."""


@dataclass(frozen=True)
class Tree:
    """Files by path, with `/`.

    Attributes:
        files: path -> a function that reads at most so many bytes, or raises `Refused`.
        folders: the paths of folders.
        refused: path -> why the file is not read.
    """

    files: Mapping[str, Callable[[int], bytes]] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, path: str) -> bool:
        return path in self.files or path in self.refused

    def read(self, path: str, most: int) -> bytes:
        """Return the bytes of a file.

        Raises:
            Refused: the file is missing, has more than `most` bytes, or must not be read.
        """
        if path in self.refused:
            raise Refused(self.refused[path])
        if path in self.folders:
            raise Refused(f"{path} is a folder, and should be a file")
        if path not in self.files:
            raise Refused(f"it contains no {path}")
        return self.files[path](most)

    def paths(self) -> list[str]:
        """Return the paths of all files, including refused files, sorted."""
        return sorted({*self.files, *self.refused})

    def tops(self) -> list[str]:
        """Return the first parts of all paths, sorted."""
        return sorted({path.split("/")[0] for path in (*self.files, *self.refused, *self.folders)})

    def below(self, folder: str) -> "Tree":
        """Return the content of a folder of this tree; messages use the paths in this tree."""
        start = folder + "/"
        size = len(start)
        return Tree(
            {
                path[size:]: _called_from(start, read)
                for path, read in self.files.items()
                if path.startswith(start)
            },
            frozenset(path[size:] for path in self.folders if path.startswith(start)),
            {
                path[size:]: why.removeprefix(start)
                for path, why in self.refused.items()
                if path.startswith(start)
            },
        )


def is_junk(name: str) -> bool:
    """Return whether a file or folder of this name is never part of a submission."""
    return name.startswith(".") or name in _JUNK


def read_folder(folder: Path) -> Tree:
    """Return the tree of a folder. Links are never followed.

    Raises:
        Refused: the folder has too many files.
    """
    files: dict[str, Callable[[int], bytes]] = {}
    folders: set[str] = set()
    refused: dict[str, str] = {}
    for path, entry in _walk(folder, ""):
        if len(files) + len(folders) + len(refused) >= MOST_FILES:
            raise Refused(f"it has more than {MOST_FILES} files")
        if entry.is_symlink():
            refused[path] = _link(path)
        elif entry.is_dir(follow_symlinks=False):
            folders.add(path)
        else:
            files[path] = _reader(Path(entry.path), path)
    return Tree(files, frozenset(folders), refused)


def file_tree(path: Path, name: str) -> Tree:
    """Return the tree of one file, called `name` there."""
    if path.is_symlink():
        return Tree(refused={name: _link(name)})
    return Tree({name: _reader(path, name)})


def read_file(path: Path, shown: str, most: int) -> bytes:
    """Return the bytes of a plain file. It never blocks, not even on a pipe without a writer.

    Args:
        path: the path of the file.
        shown: the name of the file in messages.
        most: the most bytes that it may have.

    Raises:
        Refused: the path is a link, a folder or a device, is too long, or may not be read.
        OSError: the disk is at fault, not the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused(_link(shown)) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENXIO, errno.ENODEV):
            raise Refused(f"{shown} cannot be read: {error.strerror}") from None
        raise
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused(f"{shown} is not a plain file")
        check_size(shown, facts.st_size, most)
        data = file.read(most + 1)
    # Some files are longer than they say.
    check_size(shown, len(data), most)
    return data


def check_size(shown: str, size: int, most: int) -> None:
    """Check that a file is short enough.

    Raises:
        Refused: it is too long.
    """
    if size > most:
        raise Refused(f"{shown} has more than {most} bytes: {KEEP_SHORT}")


def _called_from(start: str, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def read_below(most: int) -> bytes:
        try:
            return read(most)
        except Refused as error:
            raise Refused(str(error).removeprefix(start)) from None

    return read_below


def _link(shown: str) -> str:
    return f"{shown} is a link; hand in the file itself"


def _reader(path: Path, shown: str) -> Callable[[int], bytes]:
    return lambda most: read_file(path, shown, most)


def _walk(folder: Path, prefix: str, depth: int = 1) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    try:
        entries = [*os.scandir(folder)]
    except PermissionError:
        raise Refused(f"folder {prefix or '.'} cannot be read: Permission denied") from None
    for entry in entries:
        if is_junk(entry.name):
            continue
        path = prefix + entry.name
        yield path, entry
        if depth < MOST_DEPTH and entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, path + "/", depth + 1)
