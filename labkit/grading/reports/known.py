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


def known_sources(lab: Lab, labs: list[Lab], earlier: Path | None = None) -> dict[str, bytes]:
    """Return the sources by how reports name them.

    Args:
        lab: of the submissions.
        labs: all labs of the repository.
        earlier: a folder or zip of submissions for this lab, last year's for example.

    Raises:
        UsageError: there is nothing to read in `earlier`.
    """
    root = root_of(lab)
    files = [*(root / _ENGINE).rglob("*.py"), *(other.solution for other in labs)]
    found = {
        path.relative_to(root).as_posix(): path.read_bytes() for path in files if path.exists()
    }
    for one in [] if earlier is None else collect([earlier], Course(labs, lab)):
        if lab.name in one.sources:
            found[f"{earlier}: {one.student}"] = one.sources[lab.name]
    return found
