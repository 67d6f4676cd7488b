"""What the bench of each lab reads: the course and its packages as archives, labs, references."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from labkit.browser import strip
from labkit.browser.labs import labs_data
from labkit.course.lab import find_labs
from labkit.publish.site.archive import make_archive, make_packages

_DATE = (1980, 1, 1, 0, 0, 0)


def write_bench(course: Path, root: Path, folder: Path) -> None:
    """Write the data of the bench.

    Args:
        course: the repository, or a student edition. Of that there are no references, but what
            these give for the strip's examples.
        root: the repository.
        folder: the site's folder `bench`.

    Raises:
        UsageError: a file or a package is missing.
        LabFolderError: a file of a lab is missing or malformed.
    """
    _write_archive(folder / "course.zip", make_archive(course))
    _write_archive(folder / "python.zip", make_packages())
    _write_json(folder / "labs.json", labs_data(course))
    _write_json(folder / "strip.json", strip.pages(course))
    solutions = {lab.number: lab.solution for lab in find_labs(course) if lab.solution.exists()}
    if solutions:
        texts = {number: path.read_text("utf-8") for number, path in solutions.items()}
        _write_json(folder / "solutions.json", texts)
    else:
        _write_json(folder / "strip-stored.json", strip.stored(root))


def _write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), data, zipfile.ZIP_DEFLATED)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
