"""The choice of the file to grade among a student's: by name, then by content, else the latest.

Several files of a student are one submission: two attachments, several attempts, a zip beside a
file. The file that is named `starter.py` is graded, in whatever folder or zip it is. If several are
named so, or none, it is the file that defines most of the functions and classes which the lab asks
for. If even that leaves several, and they differ, then the latest is graded, as far as names tell:
this is in doubt, for this student only. The student and the instructor read which file was graded,
and which files were not.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from labkit.course.lab import Lab
from labkit.grading.reading.entry_name import read_entry_name
from labkit.grading.reading.submission import Remark, Submission

STARTER = "starter.py"
NOTEBOOK = ".ipynb"
# A source that the system or the browser has given another suffix is still a source.
TEXT_SUFFIX = ".py.txt"
SUFFIXES = (".py", ".zip")
_STARTER = re.compile(r"starter[ _-]*(?:\(?[0-9]+\)?)?\.py(?:\.txt)?", re.I)
_NUMBER = re.compile(r"[ _-]?\(?([0-9]{1,6})\)?(?:\.[a-z.]+)?$", re.I)
_PUBLIC = re.compile(rb"^ *(?:async +)?(?:def|class) +([A-Za-z]\w*)", re.M)
_MOST_NAMED = 3


def starter_of(lab: Lab) -> bytes:
    """Return a lab's starter as it was handed out; b"" in an archive without starters."""
    for path in (lab.pristine_starter, lab.starter):
        if path.exists():
            return path.read_bytes()
    return b""


def is_code(name: str) -> bool:
    """Return whether a file of this name may contain the lab's source."""
    return name.lower().endswith((*SUFFIXES, TEXT_SUFFIX))


def is_named(path: str) -> bool:
    """Return whether a file is named as the lab's, as far as systems and browsers keep names."""
    return _STARTER.fullmatch(path.rpartition("/")[2]) is not None


def chosen(options: Mapping[str, Submission], lab: Lab | None) -> Submission:
    """Return the submission to grade, with a remark if there was a choice.

    Args:
        options: the submission in each of a student's files, by the name of the file.
        lab: the lab to grade, or None if it is not known.
    """
    own = {name: read_entry_name(name).file or name for name in options}
    likely = [name for name in options if is_code(own[name]) or options[name].fault is None]
    likely = likely or [*options]
    if any(_has_name(own[name], options[name]) for name in likely):
        likely = [name for name in likely if _has_name(own[name], options[name])]
    if len(likely) > 1 and lab is not None:
        public = _public_names(lab)
        defined = {name: _count(options[name], public) for name in likely}
        likely = [name for name in likely if defined[name] == max(defined.values())]
    taken = max(likely, key=lambda name: _order(name, options[name]))
    submission = options[taken]
    others = [name for name in options if name != taken]
    if not others:
        return submission
    rivals = [name for name in likely if _main(options[name]) != _main(submission)]
    return replace(submission, remarks=(*submission.remarks, _remark(taken, others, rivals, own)))


def left_out(taken: str, others: Sequence[str]) -> Remark:
    """Return the remark that one file was graded and others were not."""
    return Remark(f"{taken} was graded; {_few(others)} {_was(others)} not")


def _remark(
    taken: str, others: Sequence[str], rivals: Sequence[str], own: Mapping[str, str]
) -> Remark:
    shown = own if len({*own.values()}) == len(own) else {name: name for name in own}
    left = left_out(shown[taken], [shown[name] for name in others])
    if not rivals:
        return left
    several = f"{shown[taken]} and {_few([shown[name] for name in rivals])}"
    return Remark(
        f"{several} may each be the file to grade. {left.text}: hand in one file named {STARTER}",
        is_doubt=True,
    )


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return listed([*names[:_MOST_NAMED], f"{more} more"] if more > 0 else names)


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def _has_name(own: str, submission: Submission) -> bool:
    """Return whether a file is named as the lab's, or contains a file that is."""
    return is_named(own) or is_named(submission.place)


def _main(submission: Submission) -> bytes | None:
    return submission.sources.get(submission.lab)


def _count(submission: Submission, public: frozenset[bytes]) -> int:
    """Return how many of the lab's names a source defines; no source defines less than none."""
    source = _main(submission)
    return -1 if source is None else len(public & frozenset(_PUBLIC.findall(source)))


def _public_names(lab: Lab) -> frozenset[bytes]:
    return frozenset(_PUBLIC.findall(starter_of(lab)))


def _order(name: str, submission: Submission) -> tuple[int, int, int, int, str]:
    """Return the key that sorts a student's files: unreadable files first, the latest last."""
    parts = read_entry_name(name)
    number = _NUMBER.search((parts.file or name).removesuffix(".txt"))
    return (
        int(submission.fault is None),
        len(submission.sources),
        parts.upload,
        int(number[1]) if number else 0,
        name,
    )
