"""Remarks on a source that is not the lab's: another lab's file, a module of the engine.

Its tests would only say that a name is missing, once for each test. Sources are hostile, so they
are searched, not parsed: a name that occurs nowhere in a source is not defined there. No points
depend on this.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from labkit.course.lab import Lab
from labkit.grading.reading.choice import listed, starter_of
from labkit.grading.reading.source_text import text_of
from labkit.grading.reading.submission import Remark, Submission

_ENGINE = "mini_vllm"
_DEFINED = re.compile(r"^(?:async +)?(?:def|class) +([A-Za-z]\w*)", re.M)
_ANY = re.compile(r"^ *(?:async +)?(?:def|class) +(\w+)", re.M)
_WORD = re.compile(r"[^\W\d]\w*")
# A module of the engine is recognised by this many of its names, public or not, and this share.
_FEWEST_NAMES, _SHARE = 5, 0.7


def with_remark(submission: Submission, labs: Sequence[Lab]) -> Submission:
    """Return a submission with a remark if its source lacks names that the lab asks for, or has
    those of a module of the engine.

    Args:
        submission: a submission with a lab.
        labs: all labs of the course.
    """
    lab = next((lab for lab in labs if lab.name == submission.lab), None)
    source = submission.sources.get(submission.lab, b"")
    # In a hunt, students choose the names.
    if lab is None or lab.hunt is not None or submission.fault is not None or not source.strip():
        return submission
    text = text_of(source)
    words = frozenset(_WORD.findall(text))
    missing = [name for name in names_of(lab) if name not in words]
    module = _module_like(frozenset(_ANY.findall(text)), str(_root_of(lab) / _ENGINE))
    if not missing and not module:
        return submission
    defined = frozenset(_DEFINED.findall(text))
    others = [other for other in labs if other.hunt is None and other.name != lab.name]
    if len(missing) < len(names_of(lab)):
        others = []
    owner = next((other for other in others if defined.issuperset(names_of(other) or [""])), None)
    if owner is not None:
        first = f"This is the file of {owner.label}, which defines {listed(names_of(owner))}"
    elif module:
        first = f"This looks like the engine's module {module}"
    else:
        first = "This may be another file" if len(missing) == len(names_of(lab)) else ""
    last = f"it lacks {listed(missing)}, which {lab.label} asks for" if missing else ""
    remark = Remark(": ".join(filter(None, [first, last])))
    return replace(submission, remarks=(remark, *submission.remarks))


def names_of(lab: Lab) -> tuple[str, ...]:
    """Return the names of the functions and classes in a lab's starter, if there is one."""
    return tuple(dict.fromkeys(_DEFINED.findall(starter_of(lab).decode("utf-8", "replace"))))


@cache
def _modules(engine: str) -> dict[str, frozenset[str]]:
    paths = sorted(Path(engine).rglob("*.py"))
    names = {path: frozenset(_ANY.findall(path.read_text(encoding="utf-8"))) for path in paths}
    return {
        f"{_ENGINE}/{path.relative_to(engine).as_posix()}": own
        for path, own in names.items()
        if len(own) >= _FEWEST_NAMES
    }


def _module_like(defined: frozenset[str], engine: str) -> str:
    """Return the engine's module that has most of its names in a source, or ""."""
    shared = {name: len(names & defined) for name, names in _modules(engine).items()}
    likely = [
        name
        for name, names in _modules(engine).items()
        if shared[name] >= max(_FEWEST_NAMES, _SHARE * len(names))
    ]
    return max(likely, key=lambda name: (shared[name], name), default="")


def _root_of(lab: Lab) -> Path:
    return lab.path.parents[2]
