"""Gate: the pool of a hunt is fair, and the whole pool can be killed.

The engine's implementations must pass every test of the lab that they represent, and each edit of
them must fail a test: students never have to kill an implementation that keeps the lab's rules. The
hunt's own reference kills the whole pool, including the hidden part.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.course.hunt import Code, Pool
from labkit.course.lab import Lab, find_labs
from labkit.errors import LabFolderError
from labkit.gates.finding import Finding, of_labs
from labkit.running.drive import Driver, perform
from labkit.running.given import for_tests, read_given
from labkit.running.hunting.here import Here
from labkit.running.hunting.hidden_pool import whole_pool
from labkit.running.hunting.rules import hunt
from labkit.running.import_file import test_functions
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.score import PUBLIC_SEED, TEST_LIMIT
from labkit.running.source import load_given, load_source

# The checks of other gates that are left out for a hunt.
EXEMPTIONS = {
    "marks": "how points are shared out: a student's own tests are graded",
    "signatures": "which tests starter and solution have: each student writes other tests",
    "diagnoses": "a probe for each known bug: its report names the living, and the void tests",
    "bugs": "a diagnosis of each known bug, and a bug for each test: no test leaves all alive",
    "tables": "a table of answers: tests are handed in, and they answer nothing",
}


def exemptions(gate: str, labs: list[Lab]) -> list[Finding]:
    """Return a note for each hunt about the check that a gate leaves out."""
    said = f"not checked for a hunt ([hunt] in its lab.toml): {EXEMPTIONS[gate]}"
    return [Finding(lab.name, said, is_note=True) for lab in labs if lab.hunt is not None]


@of_labs
def pools_are_fair(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check the pool of every hunt, if there are references."""
    return [
        Finding(lab.name, message)
        for lab in labs
        if lab.hunt is not None and lab.solution.exists()
        for message in _check(lab, find_labs(root))
    ]


def _check(lab: Lab, labs: list[Lab]) -> list[str]:
    try:
        pool = whole_pool(lab, labs)
    except LabFolderError as error:
        return [str(error)]
    counts = Counter(code.name for code in pool.wrong())
    faults = [f"{name} is in the pool {count} times" for name, count in counts.items() if count > 1]
    by_name = {other.name: other for other in labs}
    for target in pool.targets:
        if target.lab not in by_name:
            faults.append(f"{target.lab} is hunted, and there is no such lab")
            continue
        if len(pool.right(target)) < 2:
            faults.append(f"{target.label} has one right implementation; two show whose accident")
    for code in lab.pool.codes:
        if code.target.lab in by_name:
            faults += _judged(code, by_name[code.target.lab])
    return faults + _survivors(lab, pool)


def _judged(code: Code, lab: Lab) -> list[str]:
    """Return the faults of a published implementation, by the tests of its lab."""
    # The program that counts its work: so the tests show that the counting changes nothing else.
    program = code.metered_program()
    module = load_source(program, code.name, code.name, f"judged.{code.name}", code.imports)
    # Slow tests last: one failure is enough.
    for test in sorted(lab.tests, key=lambda test: test.timeout or 0):
        if test.given:
            continue
        failure = _failure(module, lab, test.name, test.timeout or TEST_LIMIT)
        if failure is not None:
            return [] if code.wrong else [f"{code.name} fails {lab.label} {test.name}: {failure}"]
    return [f"{code.name} passes every test of {lab.label}, so it is not wrong"] * code.wrong


def _failure(module: ModuleType, lab: Lab, test: str, seconds: float) -> str | None:
    given = read_given(lab)

    def resolve(name: str) -> Any:
        group, _, own = name.rpartition(".")
        return getattr(load_given(given, "judged.given") if group == "given" else module, own)

    seed = f"{PUBLIC_SEED}/{test}"
    driver = Driver(partial(perform, resolve), seed, partial(for_tests, given))
    try:
        with time_limit(seconds):
            test_functions(lab.test_file)[test](driver)
    except OverdueError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.300}"
    return None


def _survivors(lab: Lab, pool: Pool) -> list[str]:
    """Return the implementations of the whole pool that the hunt's reference does not kill."""
    assert lab.hunt is not None
    source = lab.solution.read_bytes()
    load = partial(load_source, source, "solution.py", str(lab.solution), "judged.hunt", lab.given)
    hunted = hunt(source, pool, lab.hunt.most_tests, Here(load), PUBLIC_SEED)
    faults = [f"the solution's {test} does not count: {why}" for test, why in hunted.void.items()]
    alive = (name for name, tests in hunted.kills.items() if not tests)
    return [*faults, *(f"the solution does not kill {name}" for name in alive)]
