"""Files by path as a zip that is equal to the byte, or as a folder."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from labkit.grading.reading.bundles import packed


def write_zip(path: Path, files: Mapping[str, bytes], programs: Collection[str] = ()) -> None:
    """Write a zip, equal to the byte on every machine; a reader never sees half of it.

    Args:
        path: the path of the zip.
        files: by path in the zip, with `/`.
        programs: the names of those that are executable.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_bytes(packed(files, programs))
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their paths into a folder, which is made if need be."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
