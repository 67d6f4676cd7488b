"""Gate: if a lab has a race, the reference and all its competitors return the same."""

from pathlib import Path

from labkit.course.lab import Lab
from labkit.errors import LabkitError
from labkit.gates.finding import Finding, of_labs
from labkit.running.lab_impl import Implementation
from labkit.running.racing import FILE, first_difference, maker, read_race, walk, where


@of_labs
def races_are_fair(root: Path, labs: list[Lab]) -> list[Finding]:
    """Run the reference, the naive version and any others over the workload of every race."""
    findings: list[Finding] = []
    for lab in labs:
        try:
            findings += [Finding(f"{lab.name}/{FILE}", message) for message in _check(lab)]
        except LabkitError as error:
            findings.append(Finding(f"{lab.name}/{FILE}", str(error)))
    return findings


def _check(lab: Lab) -> list[str]:
    race = read_race(lab)
    if race is None:
        return []
    reference = Implementation("solution", lab.solution)
    right = walk(race, maker(race, reference), reference)
    faults = []
    for name, make in {race.naive_version: race.naive, **race.others}.items():
        beside = walk(race, make, Implementation("path", lab.path / FILE))
        number = first_difference(beside.outputs, right.outputs)
        if number is not None:
            faults.append(f"at {where(race, number)}, the {name} leaves the reference")
    if right.held is None:
        faults.append("`held` of the reference cannot be measured")
    return faults
