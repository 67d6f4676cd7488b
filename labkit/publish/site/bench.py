"""The files of the bench: the course and its packages as archives, labs, references."""

import json
from pathlib import Path

from labkit.browser import strip
from labkit.browser.labs import labs_data
from labkit.course.lab import find_labs
from labkit.grading.reading.bundles import packed
from labkit.publish.site.archive import make_archive, make_packages


def write_bench(course: Path, root: Path, folder: Path) -> None:
    """Write the data of the bench.

    Args:
        course: the repository, or a student edition. For an edition no references are written, only
            their results for the strip's examples.
        root: the repository.
        folder: the site's folder `bench`.

    Raises:
        UsageError: a file or a package is missing.
        LabFolderError: a file of a lab is missing or malformed.
    """
    write_archives(course, root, folder)
    _write_json(folder / "labs.json", labs_data(course))
    _write_json(folder / "strip.json", strip.pages(course))
    solutions = {lab.number: lab.solution for lab in find_labs(course) if lab.solution.exists()}
    if solutions:
        texts = {number: path.read_text("utf-8") for number, path in solutions.items()}
        _write_json(folder / "solutions.json", texts)
    else:
        _write_json(folder / "strip-stored.json", strip.stored(root))


def write_archives(course: Path, root: Path, folder: Path) -> None:
    """Write the archives for a browser's Python; see `write_bench`."""
    for name, files in (("course", make_archive(course, root)), ("python", make_packages())):
        (folder / f"{name}.zip").write_bytes(packed(files, compressed=True))


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
