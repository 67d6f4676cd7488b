"""The grades so far, in an append-only file: one line of JSON each, on the disk before it counts.

A line is `{"sum":"...","grade":{...}}`; the sum is the HMAC-SHA256 of the rest of the line and of
the sum on the previous line. So a line that was edited, moved, copied or cut out is detected, and
costs that line and at most the next line. Missing lines at the end are not detected; they cost only
time. The key is in a file beside the ledger, `FILE.key`, made with it: anyone who can read the key
can forge a line.

Grades are looked up by submission, lab, assignment and mode, the values that they depend on. So
equal files are graded once, whatever their student, and a grade does not name the student. When
tests change, earlier lines stay in the file, but are not looked up any more. For a fresh start,
name another file.

Other lines are notes: the word after the sum is their kind. Notes of the kind `points`, for points
given by hand, do name students.
"""

import fcntl
import hmac
import json
import logging
import os
import re
import secrets
from dataclasses import replace
from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import Any

from labkit.errors import InfrastructureError, UsageError
from labkit.grading.grade import Grade, Key

_FIRST = b'{"ledger":"labkit/ledger/v2","key":"'
_SUM, _GRADE = b'{"sum":"', "grade"
_LINE = re.compile(rb'\{"sum":"([0-9a-f]{64})",("([a-z]+)":(.*))\}\n', re.DOTALL)
_KEY_DIGITS = 64
_log = logging.getLogger(__name__)


@cache
def _warn(path: Path, number: int) -> None:
    """Warn of a line, once even if its ledger is opened several times."""
    _log.warning(
        "%s line %d was edited, or was moved, and is left out: a grade is made again; points by "
        "hand, extensions and times must be named again, as with --points",
        path,
        number,
    )


class Ledger:
    """A ledger in a file, which is created if necessary. Use it with `with`.

    A last line that was cut off, because the grader was killed while writing it, is removed. A line
    whose sum is wrong is logged and ignored.

    Args:
        path: the path of the file.

    Raises:
        UsageError: the file is not a ledger, another grader is using it, or its key is missing.
        InfrastructureError: the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[Key, tuple[int, int]] = {}
        self._notes: dict[str, list[Any]] = {}
        self._size = 0
        self._last_sum = b""
        self._file = self._open()
        try:
            self._lock()
            self._check()
            self._key = self._read_key()
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
        """Return the grade with this key, without a student, or None."""
        if key not in self._places:
            return None
        start, size = self._places[key]
        return Grade.from_json(_read(os.pread(self._file, size, start))[3])

    def add(self, grade: Grade) -> None:
        """Append a grade; when this returns, the grade is on the disk.

        Raises:
            InfrastructureError: it cannot be written.
        """
        start = self._size
        self._append(_GRADE, replace(grade, student="").to_json())
        self._places[grade.key] = start, self._size - start

    def note(self, kind: str, data: Any) -> None:
        """Append a note: plain data of a kind, which is a word in small letters.

        Raises:
            InfrastructureError: it cannot be written.
        """
        self._append(kind, data)
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
                f"--ledger {self._path}: another grader is using it; wait for that grader, or "
                "use another file"
            ) from None

    def _check(self) -> None:
        if not _FIRST.startswith(os.pread(self._file, len(_FIRST), 0)):
            raise UsageError(
                f"--ledger {self._path}: this is not a ledger; name a new file, or a file that "
                "`grade --ledger` has made"
            )

    def _read_key(self) -> bytes:
        """Return the key; make it if the ledger has neither lines nor a key."""
        path = self._path.with_name(f"{self._path.name}.key")
        try:
            key = path.read_bytes().strip() if path.exists() else b""
            if len(key) != _KEY_DIGITS and os.fstat(self._file).st_size == 0:
                key = secrets.token_hex(_KEY_DIGITS // 2).encode()
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with open(file, "wb") as target:
                    target.write(key + b"\n")
                    target.flush()
                    os.fsync(file)
        except OSError as error:
            raise self._failed(error) from None
        if len(key) != _KEY_DIGITS:
            raise UsageError(
                f"--ledger {self._path}: its key {path} is missing, so edited lines cannot be "
                "detected; restore the key from the place where the ledger was made, or name a new "
                "file"
            )
        return key

    def _read(self) -> None:
        first = _FIRST + self._sum(_FIRST) + b'"}\n'
        with open(os.dup(self._file), "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1 and not first.startswith(line):
                    raise UsageError(
                        f"--ledger {self._path}: its key file belongs to another ledger; restore "
                        "its own key file, or name a new ledger"
                    )
                if not line.endswith(b"\n"):
                    os.ftruncate(self._file, self._size)
                    break
                if number > 1:
                    self._take(number, line)
                self._size += len(line)
        if self._size == 0:
            self._write(first)

    def _take(self, number: int, line: bytes) -> None:
        sum = line[len(_SUM) :][:_KEY_DIGITS]
        try:
            sum, content, kind, value = _read(line)
            if not hmac.compare_digest(sum, self._sum(content)):
                raise ValueError("the sum is wrong")
            if kind == _GRADE:
                self._places[Grade.from_json(value).key] = self._size, len(line)
            else:
                self._notes.setdefault(kind, []).append(value)
        except (ValueError, TypeError, LookupError):
            _warn(self._path, number)
        self._last_sum = sum

    def _sum(self, content: bytes) -> bytes:
        """Return the sum of the next line, given its content."""
        return hmac.digest(self._key, self._last_sum + content, "sha256").hex().encode()

    def _append(self, kind: str, value: Any) -> None:
        content = f'"{kind}":{json.dumps(value, separators=(",", ":"))}'.encode("ascii")
        sum = self._sum(content)
        self._write(_SUM + sum + b'",' + content + b"}\n")
        self._last_sum = sum

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


def _read(line: bytes) -> tuple[bytes, bytes, str, Any]:
    """Return the sum of a line, the bytes that it covers, and their kind and value.

    Raises:
        ValueError: the line has another form.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("this is not a line of a ledger")
    return match[1], match[2], match[3].decode("ascii"), json.loads(match[4])
