"""The grades so far, in a file that only grows: a line of JSON each, on the disk before it counts.

A line is `{"sum":"...","grade":{...}}`; the sum is the SHA-256 of the grade's bytes. Grades are
found by what they depend on: submission, lab, assignment and mode. So equal files are graded once,
whoever handed them in, and no grade says who. When tests change, earlier lines stay in the file,
but nothing looks for them any more. For a fresh start, name another file.

Other lines are notes: the word behind the sum says of what kind, as `points` for those by hand.
"""

import fcntl
import json
import logging
import os
import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Any

from labkit.errors import InfrastructureError, UsageError
from labkit.grading.grade import Grade, Key

_FIRST_LINE = b'{"ledger":"labkit/ledger/v1"}\n'
_GRADE = "grade"
_LINE = re.compile(rb'\{"sum":"([0-9a-f]{64})","([a-z]+)":(.*)\}\n', re.DOTALL)
_log = logging.getLogger(__name__)


class Ledger:
    """A ledger in a file, which is created if necessary. Use it with `with`.

    A last line that was cut off, because the grader was killed while writing it, is removed. A
    damaged line is logged and ignored.

    Args:
        path: of the file.

    Raises:
        UsageError: the file is something else, or another grader is using it.
        InfrastructureError: it cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[Key, tuple[int, int]] = {}
        self._notes: dict[str, list[Any]] = {}
        self._size = 0
        self._file = self._open()
        try:
            self._lock()
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        return len(self._places)

    def find(self, key: Key) -> Grade | None:
        """Return the grade with this key, with no student in it, or None."""
        if key not in self._places:
            return None
        start, size = self._places[key]
        return Grade.from_json(_read_line(os.pread(self._file, size, start))[1])

    def add(self, grade: Grade) -> None:
        """Append a grade; when this returns, it is on the disk.

        Raises:
            InfrastructureError: it cannot be written.
        """
        line = _line(_GRADE, replace(grade, student="").to_json())
        start = self._size
        self._write(line)
        self._places[grade.key] = start, len(line)

    def note(self, kind: str, data: Any) -> None:
        """Append a note: plain data of a kind, which is a word in small letters.

        Raises:
            InfrastructureError: it cannot be written.
        """
        self._write(_line(kind, data))
        self._notes.setdefault(kind, []).append(data)

    def notes(self, kind: str) -> list[Any]:
        """Return the notes of a kind, the oldest first."""
        return [*self._notes.get(kind, ())]

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        try:
            is_new = not self._path.exists()
            file = os.open(self._path, flags | os.O_CREAT, 0o600)
            if is_new:
                # A new file survives a crash only if its folder is on the disk too.
                folder = os.open(self._path.parent, os.O_RDONLY)
                os.fsync(folder)
                os.close(folder)
            if not S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                raise UsageError(f"--ledger {self._path}: this is not a plain file; name a file")
        except (IsADirectoryError, FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(f"--ledger {self._path}: {error.strerror}; name a file") from None
        except OSError as error:
            raise self._failed(error) from None
        return file

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"--ledger {self._path}: another grader is using it; wait for that one, or use "
                "another file"
            ) from None

    def _read(self) -> None:
        with open(os.dup(self._file), "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1 and not _FIRST_LINE.startswith(line):
                    raise UsageError(
                        f"--ledger {self._path}: this is not a ledger; name a new file, or one "
                        "that `grade --ledger` has made"
                    )
                if not line.endswith(b"\n"):
                    os.ftruncate(self._file, self._size)
                    break
                if number > 1:
                    self._take(number, line)
                self._size += len(line)
        if self._size == 0:
            self._write(_FIRST_LINE)

    def _take(self, number: int, line: bytes) -> None:
        try:
            kind, told = _read_line(line)
            if kind == _GRADE:
                self._places[Grade.from_json(told).key] = self._size, len(line)
            else:
                self._notes.setdefault(kind, []).append(told)
        except (ValueError, TypeError, LookupError):
            _log.warning(
                "%s line %d is damaged; its submission is graded again (points by hand are lost: "
                "name --points again)",
                self._path,
                number,
            )

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise self._failed(error) from None
        self._size += len(data)

    def _failed(self, error: OSError) -> InfrastructureError:
        return InfrastructureError(f"the ledger {self._path} cannot be used: {error.strerror}")


def _line(kind: str, told: Any) -> bytes:
    body = json.dumps(told, separators=(",", ":")).encode("ascii")
    return b'{"sum":"%s","%s":%s}\n' % (sha256(body).hexdigest().encode(), kind.encode(), body)


def _read_line(line: bytes) -> tuple[str, Any]:
    """Return the kind of a line and what it tells.

    Raises:
        ValueError: it is damaged.
    """
    found = _LINE.fullmatch(line)
    if found is None or found[1] != sha256(found[3]).hexdigest().encode():
        raise ValueError("the sum is wrong")
    return found[2].decode("ascii"), json.loads(found[3])
