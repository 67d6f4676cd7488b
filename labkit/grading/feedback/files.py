"""Feedback as files, named so that the platform that gave the submissions takes them back.

All files are in one folder, or in a zip that is ready to upload. Moodle and Canvas find the student
by the numbers in the name, see `labkit.grading.reading.entry_name`; the text before the numbers is
for people. Students choose their names, so file names are made safe: they never contain a path, and
are neither hidden nor reserved on some system. No two are equal on a system that ignores capitals.
"""

import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from labkit.errors import UsageError
from labkit.grading.reading.entry_name import read_entry_name

OPTION = "--feedback"
_FEEDBACK_NAME = re.compile(r".+_feedback-(lab-[0-9]{2})(-[0-9]+)?\.(html|txt)", re.DOTALL)
# A file system allows 255: this leaves room for a platform's numbers and the text after them.
_MOST_BYTES = 150
_NO_PART_OF_A_NAME = re.compile(r"[^\w .,'()@+-]|_")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_DATE = (1980, 1, 1, 0, 0, 0)


def file_names(entries: Iterable[str], lab: str) -> dict[str, str]:
    """Return the file name of each entry's feedback, without the suffix.

    Args:
        entries: the students as grades name them.
        lab: the lab's short name, `lab-03`.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for entry in sorted(entries):
        entry_name = read_entry_name(entry)
        stem = f"{_safe(entry_name.name)}{entry_name.id_part}feedback-{lab}"
        name, count = stem, 1
        while _same(name) in taken:
            count += 1
            name = f"{stem}-{count}"
        taken.add(_same(name))
        names[entry] = name
    return names


def _safe(name: str) -> str:
    """Return a name without characters that mean something to a file system or a platform."""
    text = _NO_PART_OF_A_NAME.sub("-", unicodedata.normalize("NFC", name[: 2 * _MOST_BYTES]))
    text = text.encode("utf-8", "replace")[:_MOST_BYTES].decode("utf-8", "ignore")
    text = text.strip(" .,'()@+-")
    if not text or text.isdecimal() or _RESERVED.fullmatch(text):
        # A number alone would be read as the platform's number.
        return f"student {text}".strip()
    return text


def _same(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def check_place(place: Path) -> None:
    """Check that feedback can be written to a folder or zip, and that the place is otherwise empty.

    Raises:
        UsageError: feedback cannot be written; the message says what to do.
    """
    if not place.parent.is_dir():
        raise UsageError(f"{OPTION}: there is no folder {place.parent}; make it first")
    if place.suffix.lower() == ".zip":
        if place.is_dir():
            raise UsageError(f"{OPTION} {place} is a folder; name a zip, or a folder without .zip")
        return
    if not os.path.lexists(place):
        return
    if place.is_symlink() or not place.is_dir():
        raise UsageError(f"{OPTION} {place} is not a folder; name a new one, or FILE.zip")
    for entry in os.scandir(place):
        if not _FEEDBACK_NAME.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
            raise UsageError(
                f"{OPTION} {place} has {entry.name!r}, which is not feedback; name a new folder"
            )


def write_files(place: Path, files: Mapping[str, str], lab_names: Iterable[str]) -> None:
    """Write feedback; files of earlier gradings of these labs are removed from the folder.

    Args:
        place: a folder, which is made if there is none, or a zip.
        files: texts by name.
        lab_names: the short names of the labs.

    Raises:
        UsageError: the place has other content by now.
        OSError: the feedback cannot be written.
    """
    check_place(place)
    if place.suffix.lower() == ".zip":
        _write_zip(place, files)
        return
    place.mkdir(0o700, exist_ok=True)
    # Kept open, so that a folder put in its place meanwhile is not written to.
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in _earlier_files(folder, lab_names):
            os.unlink(name, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        for name, text in files.items():
            with open(os.open(name, flags, 0o644, dir_fd=folder), "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
    finally:
        os.close(folder)


def _earlier_files(folder: int, lab_names: Iterable[str]) -> Iterator[str]:
    labels = {*lab_names}
    for name in os.listdir(folder):
        match = _FEEDBACK_NAME.fullmatch(name)
        if match is not None and match[1] in labels:
            yield name


def _write_zip(place: Path, files: Mapping[str, str]) -> None:
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(scratch, "x", zipfile.ZIP_DEFLATED) as archive:
            for name, text in sorted(files.items()):
                entry = zipfile.ZipInfo(name, _DATE)
                entry.external_attr = (stat.S_IFREG | 0o644) << 16
                data = text.encode("utf-8", "backslashreplace")
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
        scratch.replace(place)
    finally:
        scratch.unlink(missing_ok=True)
