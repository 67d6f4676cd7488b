"""The sources that submissions are compared with besides each other: what students can copy from.

These are the modules of the engine, which students have, the references, and what was handed in
earlier, if an instructor names it.
"""

from pathlib import Path

from labkit.course.lab import Lab
from labkit.grading.reading.inputs import collect
from labkit.grading.reading.one_student import Course
from labkit.running.under_test import root_of

_ENGINE = "mini_vllm"


def known_sources(lab: Lab, labs: list[Lab]) -> dict[str, bytes]:
    """Return the engine's modules and the references that there are, by path.

    Args:
        lab: of the submissions.
        labs: all labs of the repository.
    """
    root = root_of(lab)
    files = [*(root / _ENGINE).rglob("*.py"), *(other.solution for other in labs)]
    paths = [path for path in files if path.exists()]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def earlier_sources(path: Path, lab: Lab, labs: list[Lab]) -> dict[str, bytes]:
    """Return what was handed in for a lab before, by how reports name it.

    Args:
        path: a folder or zip of submissions, last year's for example.
        lab: the lab.
        labs: all labs of the repository.

    Raises:
        UsageError: there is nothing to read.
    """
    submissions = collect([path], Course(labs, lab))
    return {
        f"{path.name}: {submission.student}": data
        for submission in submissions
        for data in submission.sources.values()
    }
