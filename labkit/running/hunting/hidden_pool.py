"""The hidden part of a hunt's pool: the references of its labs, and their known bugs.

But: students have none of it. The published part is `Lab.pool`.
"""

from collections.abc import Sequence

from labkit.course.hunt import Code, Pool, Target
from labkit.course.lab import Lab
from labkit.running.lab_impl import Implementation


def whole_pool(lab: Lab, labs: Sequence[Lab]) -> Pool:
    """Return a hunt's pool with its hidden part: the references of the labs, and their known bugs.

    For a lab without a reference, as in a student edition, the pool is the published part.

    Args:
        lab: the hunt.
        labs: of the repository.

    Raises:
        LabFolderError: the published part does not fit together.
        LoadFailure: a known bug does not fit its reference.
    """
    by_name = {other.name: other for other in labs}
    codes = []
    for target in lab.pool.targets:
        codes += [code for code in lab.pool.codes if code.target == target]
        other = by_name.get(target.lab)
        if other is not None and other.solution.exists():
            codes += _references(target, other)
    return Pool(lab.pool.targets, tuple(codes))


def _references(target: Target, lab: Lab) -> list[Code]:
    codes = [Code("the reference", target, lab.solution.read_bytes(), lab.given)]
    for bug in lab.bugs:
        if bug.name in target.unseen:
            continue
        name = f"{target.label}.{bug.name}"
        source = Implementation("bug", lab.solution, bug).source()
        codes.append(Code(name, target, source, lab.given, True, bug.title, hidden=True))
    return codes
