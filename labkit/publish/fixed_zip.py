"""Zip files that are equal to the byte wherever they are made: fixed order, dates and modes.

Nothing is compressed, because what zlib writes depends on its version.
"""

import os
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path

_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


def write_zip(path: Path, files: Mapping[str, bytes], programs: Collection[str] = ()) -> None:
    """Write a zip, or replace it; a reader never finds half of one.

    Args:
        path: of the zip.
        files: by path in the zip, with `/`.
        programs: those of them that may be executed.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_STORED) as archive:
            for name, data in sorted(files.items()):
                entry = zipfile.ZipInfo(name, _DATE)
                entry.create_system = _UNIX
                entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
                archive.writestr(entry, data)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
