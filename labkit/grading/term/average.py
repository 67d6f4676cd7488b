"""The average of a student's labs: by weight, without excused labs and without the lowest.

A lab counts by its percentage of the lab's points, which may exceed 100. Work that was not handed
in counts as 0. The dropped labs are those without which the average is highest; if all weights are
equal, these are the lowest.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

from labkit.course.lab import Lab, pick_lab
from labkit.errors import UsageError

_WEIGHT = re.compile(r"([^=]+)=\s*([0-9]{1,4}(?:\.[0-9]{1,2})?)")


def read_weights(text: str, labs: Sequence[Lab]) -> dict[str, Fraction]:
    """Return the weights by folder name of a lab; a lab without a weight weighs 1.

    Args:
        text: `02=1, 03=2.5`, or "".
        labs: the labs of the term.

    Raises:
        UsageError: a part has another form, a lab is not of the term, or is named twice.
    """
    weights: dict[str, Fraction] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        match = _WEIGHT.fullmatch(part)
        if match is None:
            raise UsageError(f"--weights {text!r}: {part!r} is not a weight; write '02=1, 03=2.5'")
        try:
            lab = pick_lab([*labs], match[1].strip())
        except UsageError:
            have = ", ".join(lab.number for lab in labs)
            raise UsageError(
                f"--weights {text!r}: no ledger has lab {match[1].strip()!r}; they have {have}"
            ) from None
        if lab.name in weights:
            raise UsageError(f"--weights {text!r} names lab {lab.number} twice; write it once")
        weights[lab.name] = Fraction(match[2])
    result = {lab.name: weights.get(lab.name, Fraction(1)) for lab in labs}
    if not any(result.values()):
        raise UsageError(f"--weights {text!r}: every lab weighs 0; give a lab more")
    return result


def average(
    percentages: Mapping[str, Fraction], weights: Mapping[str, Fraction], drop: int
) -> tuple[Decimal | None, tuple[str, ...]]:
    """Return the average, rounded half up to two digits, and the dropped labs.

    Without a lab that counts, the average is None.

    Args:
        percentages: by lab, without the excused labs.
        weights: by lab; a lab of weight 0 does not count.
        drop: the number of labs to drop; one lab always remains.
    """
    labs = [lab for lab in percentages if weights[lab]]
    if not labs:
        return None, ()
    number = min(drop, len(labs) - 1)
    best: tuple[Fraction, tuple[str, ...]] | None = None
    for dropped in combinations(labs, number):
        rest = [lab for lab in labs if lab not in dropped]
        total = sum((weights[lab] * percentages[lab] for lab in rest), Fraction(0))
        mean = total / sum(weights[lab] for lab in rest)
        if best is None or mean > best[0]:
            best = mean, dropped
    assert best is not None
    hundredths = (best[0] * 100 + Fraction(1, 2)).__floor__()
    return Decimal(hundredths) / 100, best[1]
