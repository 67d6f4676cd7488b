"""A zip as a tree of files. Nothing is unpacked to disk, and nothing is read before it is needed.

So a zip bomb does no harm: an entry that states its true length is refused unread, and an entry
that lies is unpacked only up to the length that it claims. Zip64 archives, which hold more than
65,535 files or 4 GiB, and methods other than deflate are also refused.
"""

import errno
import stat
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from labkit.grading.reading.tree import MOST_DEPTH, Refused, Tree, check_size, is_junk

MOST_DIRECTORY_BYTES = 16 << 20
# A zip of submissions may have as many entries as a plain zip can state.
MOST_ENTRIES = 0xFFFF
_END = struct.Struct("<4s4H2LH")
# An entry in the list of files, and the lengths of its name, extra field and comment.
_ENTRY_MARK, _ENTRY_SIZE = b"PK\1\2", 46
_LENGTHS, _LENGTHS_AT = struct.Struct("<3H"), 28
_LOCATOR_SIZE = 20
_LONGEST_COMMENT = 0xFFFF
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED, _UTF8 = 0x1, 0x800


def read_zip(file: IO[bytes], most: int = MOST_ENTRIES) -> Tree:
    """Return the tree of a zip.

    Args:
        file: the zip; it must stay open as long as the tree is read.
        most: the most files and folders that it may list.

    Raises:
        Refused: the file is not a zip, is damaged, or holds too much to be listed.
        OSError: the disk is at fault, not the zip.
    """
    _check_directory(file, most)
    try:
        archive = zipfile.ZipFile(file)
    except Exception as error:
        raise _damaged(error) from None
    files: dict[str, Callable[[int], bytes]] = {}
    folders: set[str] = set()
    refused: dict[str, str] = {}
    for entry in archive.infolist():
        name = _name(entry).replace("\\", "/")
        why = _why_not(entry, name)
        parts = [part for part in name.split("/") if part not in ("", ".", "..")]
        path = "/".join(parts)
        if not parts or any(map(is_junk, parts)) or len(parts) > MOST_DEPTH:
            continue
        folders.update("/".join(parts[:i]) for i in range(1, len(parts)))
        if why is not None:
            refused[path] = why
        elif name.endswith("/"):
            folders.add(path)
        elif path in files or path in refused:
            refused[path] = f"it contains {path} twice; keep one of them"
        else:
            files[path] = _reader(archive, entry, path)
    for path in refused:
        files.pop(path, None)
    return Tree(files, frozenset(folders), refused)


def _check_directory(file: IO[bytes], most: int) -> None:
    """Check the end of a zip, before zipfile builds an object for every entry listed there.

    The number of entries that the end states is at most 65,535 whatever it should be, so the
    entries are counted.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _END.size - _LONGEST_COMMENT - _LOCATOR_SIZE))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        raise Refused("it is not a zip, or its end is missing")
    if b"PK\6\7" in tail[max(0, at - _LOCATOR_SIZE) : at]:
        raise Refused("it is a zip64 archive; make a plain zip of fewer files")
    listed = _END.unpack_from(tail, at)[5]
    if listed > MOST_DIRECTORY_BYTES:
        raise Refused(f"its list of files has {listed} bytes; at most {MOST_DIRECTORY_BYTES}")
    file.seek(max(0, size - len(tail) + at - listed))
    if _count(file.read(listed), most) > most:
        raise Refused(f"it has more than {most} files")


def _count(directory: bytes, most: int) -> int:
    """Return how many entries a list of files has, but count only to `most` and one more."""
    count = place = 0
    while count <= most and directory.startswith(_ENTRY_MARK, place):
        if place + _ENTRY_SIZE > len(directory):
            break
        place += _ENTRY_SIZE + sum(_LENGTHS.unpack_from(directory, place + _LENGTHS_AT))
        count += 1
    return count


def _name(entry: zipfile.ZipInfo) -> str:
    """Return the name of an entry. Programs of Linux write UTF-8 without a flag; zipfile then
    reads the name in the code page of DOS.
    """
    if not entry.flag_bits & _UTF8:
        with suppress(UnicodeError):
            return entry.filename.encode("cp437").decode("utf-8")
    return entry.filename


def _why_not(entry: zipfile.ZipInfo, name: str) -> str | None:
    if name.startswith("/") or ".." in name.split("/") or name[1:2] == ":":
        return f"the zip has {name}, which leads out of it"
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return f"{name} is a link; hand in the file itself"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return f"{name} is not a plain file"
    if entry.flag_bits & _ENCRYPTED:
        return f"{name} is encrypted; make the zip without a password"
    if entry.compress_type not in _METHODS:
        return f"{name} is packed by a method other than deflate; make a plain zip"
    return None


def _reader(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: str) -> Callable[[int], bytes]:
    def read(most: int) -> bytes:
        check_size(path, entry.file_size, most)
        try:
            with archive.open(entry) as file:
                # On a request for one byte more than the entry has, zipfile compares the checksum.
                data = file.read(most + 1)
        except Exception as error:
            raise _damaged(error) from None
        if len(data) != entry.file_size:
            raise Refused(f"the zip is damaged: {path} ends early")
        return data

    return read


def _damaged(error: Exception) -> Refused:
    """Return the fault for any of the errors that zipfile raises on damaged archives."""
    if isinstance(error, OSError) and error.errno == errno.EIO:
        raise error
    return Refused(f"the zip is damaged: {error or type(error).__name__}")
