"""Gate: every known bug has a probe, and no probe takes the reference for a mistake.

That each bug is also diagnosed as itself is part of the gate `bugs`, which runs them.
"""

from functools import partial
from pathlib import Path

from labkit.course.lab import Lab
from labkit.gates.finding import Finding, of_labs
from labkit.gates.pools import exemptions
from labkit.running.diagnose import FILE, diagnose, read_mistakes
from labkit.running.drive import Driver, perform
from labkit.running.given import for_tests
from labkit.running.lab_impl import Implementation
from labkit.running.under_test import CodeUnderTest


@of_labs
def mistakes_are_known(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check the names, words and tasks of all probes, and that the reference makes no mistake."""
    return exemptions("diagnoses", labs) + [
        Finding(f"{lab.name}/{FILE}", message)
        for lab in labs
        if lab.hunt is None
        for message in _check(lab, root)
    ]


def _check(lab: Lab, root: Path) -> list[str]:
    mistakes = read_mistakes(lab.path)
    names = {mistake.name for mistake in mistakes}
    tasks = {task.number for task in lab.tasks}
    faults = [
        f"bug {bug.name} has no probe `def {bug.name.replace('-', '_')}(lab)`"
        for bug in lab.bugs
        if bug.name not in names
    ]
    for mistake in mistakes:
        if mistake.task not in tasks:
            faults.append(f"{mistake.name}: task {mistake.task} is not in lab.toml")
        if not mistake.symptom or not mistake.hint:
            faults.append(f"{mistake.name}: its docstring is the symptom, an empty line, the hint")
    reference = Implementation("solution", lab.solution)
    code = CodeUnderTest(lab, reference, root, lambda _: False)
    driver = Driver(partial(perform, code.resolve), "0", partial(for_tests, code.given))
    for mistake in mistakes:
        if diagnose([mistake], driver, [mistake.task]) is not None:
            faults.append(f"{mistake.name}: its probe fires on the reference")
    return faults
