"""Gates that run labs: solutions pass, starters wait for their tasks, bugs fail the tests named."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from labkit.course.lab import BUGS, Bug, Lab
from labkit.errors import LoadFailure
from labkit.gates.finding import Finding, of_labs
from labkit.gates.lab_runs.runs import Outcome, Question, answers
from labkit.gates.pools import exemptions
from labkit.running.diagnose import FILE, read_mistakes
from labkit.running.lab_impl import Implementation
from labkit.running.result_kind import ResultKind

FEWEST_BUGS, MOST_BUGS = 6, 16
# The outcome of a test that has no result.
_MISSING = {"kind": ResultKind.NOT_RUN, "message": "missing"}


def _failed(outcome: Outcome) -> dict[str, Any]:
    return {name: r for name, r in outcome["tests"].items() if r["kind"] != ResultKind.PASSED}


@of_labs
def solution_passes(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check that every reference solution earns all points and fails no test."""
    questions = [Question(lab, "solution", partial(_failing, lab)) for lab in labs]
    return _findings(labs, answers(root, questions), "the solution ")


def _failing(lab: Lab, outcome: Outcome) -> Iterator[str]:
    for name, result in _failed(outcome).items():
        yield f"fails {name}: {result['message']}"
    for test in lab.tests:
        if test.name not in outcome["tests"]:
            yield f"does not run {test.name}"


@of_labs
def starter_fails_by_task(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check that each test of a pristine starter waits for its own task, or one that blocks it."""
    questions = [Question(lab, str(lab.pristine_starter), partial(_hasty, lab)) for lab in labs]
    return _findings(labs, answers(root, questions), "the starter ")


def _hasty(lab: Lab, outcome: Outcome) -> Iterator[str]:
    for test in lab.tests:
        result = outcome["tests"].get(test.name, _MISSING)
        message = _wrong_starter_result(lab, test.given, test.task, result)
        if message:
            yield f"in {test.name}: {message}"


def _findings(labs: list[Lab], faults: list[list[str]], what: str) -> list[Finding]:
    return [
        Finding(lab.name, what + fault)
        for lab, wrong in zip(labs, faults, strict=True)
        for fault in wrong
    ]


def _wrong_starter_result(lab: Lab, given: bool, task: int | None, result: Outcome) -> str:
    if given:
        return (
            ""
            if result["kind"] == ResultKind.PASSED
            else f"a given test fails: {result['message']}"
        )
    match = re.match(rf"{lab.label} task (\d+): ", result["message"])
    if result["kind"] != ResultKind.UNWRITTEN or match is None:
        said = result["message"] or result["kind"]
        return f'must wait for NotImplementedError("{lab.label} task {task}: ..."), but: {said}'
    if int(match[1]) not in {task} | lab.blockers(task or 0):
        return f"waits for task {match[1]}, which does not block task {task}"
    return ""


@of_labs
def bugs_die_as_listed(root: Path, labs: list[Lab]) -> Iterator[Finding]:
    """Check the kill matrix: `killed_by` is exact, by assertion, and every scored test kills.

    Every bug is also diagnosed as itself. The bugs of a lab are run once its list is in order.
    """
    yield from exemptions("bugs", labs)
    jobs: list[tuple[Lab, Bug]] = []
    for lab in labs:
        faults = [*_faults_of_list(lab)]
        yield from faults
        yield from _idle_tests(lab)
        jobs += [] if faults else [(lab, bug) for bug in lab.bugs]
    questions = [Question(lab, f"bug:{bug.name}", partial(_wrong, lab, bug)) for lab, bug in jobs]
    for (lab, bug), wrong in zip(jobs, answers(root, questions), strict=True):
        for text in wrong:
            yield Finding(lab.name, f"bug {bug.name}: {text}")


def _faults_of_list(lab: Lab) -> Iterator[Finding]:
    """Yield the faults of `bugs.toml` that show without a run."""
    place = f"{lab.name}/{BUGS}"
    if not FEWEST_BUGS <= len(lab.bugs) <= MOST_BUGS:
        message = f"{len(lab.bugs)} bugs; a lab has {FEWEST_BUGS} to {MOST_BUGS}"
        yield Finding(place, message)
    names, tests = Counter(bug.name for bug in lab.bugs), {test.name for test in lab.tests}
    for name in [name for name in names if names[name] > 1]:
        yield Finding(place, f"there are {names[name]} bugs {name}; only the first can be run")
    for bug in lab.bugs:
        for killer in sorted(bug.killed_by - tests):
            yield Finding(place, f"bug {bug.name}: killed_by names {killer}, which does not exist")
        try:
            Implementation("bug", lab.solution, bug).source()
        except LoadFailure as error:
            yield Finding(place, str(error))


def _idle_tests(lab: Lab) -> Iterator[Finding]:
    """Yield the tests that no bug lists, unless there is a new bug, which lists none."""
    killers = frozenset[str]().union(*(bug.killed_by for bug in lab.bugs))
    if lab.hunt is None and all(bug.killed_by for bug in lab.bugs):
        for test in lab.tests:
            if not test.given and test.name not in killers:
                yield Finding(lab.name, f"{test.name} kills no bug: plant one or drop it")


def _wrong(lab: Lab, bug: Bug, outcome: Outcome) -> list[str]:
    failed = _failed(outcome)
    if not failed:
        return ["survives every test"]
    faults = []
    if failed.keys() != bug.killed_by:
        missing = ", ".join(sorted(bug.killed_by - failed.keys())) or "none"
        extra = ", ".join(sorted(failed.keys() - bug.killed_by)) or "none"
        rows = "".join(f'\n    "{test.name}",' for test in lab.tests if test.name in failed)
        faults.append(
            f"killed_by is not exact; listed but passing: {missing}; "
            f"failing but not listed: {extra}. All that fail:\nkilled_by = [{rows}\n]"
        )
    if lab.hunt is None and outcome["looks_like"] != bug.name:
        tasks = {test.task for test in lab.tests if test.name in failed}
        faults.append(_why_not_diagnosed(lab, bug, tasks, outcome["looks_like"]))
    for name, result in failed.items():
        if not _is_fair_kill(lab, name, result):
            faults.append(
                f"{name} fails by {result['kind']}, not by assertion: {result['message']}"
            )
    return faults


def _why_not_diagnosed(lab: Lab, bug: Bug, tasks: set[int | None], looks_like: str) -> str:
    """Return why the diagnosis of a bug, which fails tests of `tasks`, is not the bug itself."""
    if looks_like:
        return f"is taken for {looks_like}"
    function = bug.name.replace("-", "_")
    probe = next((probe for probe in read_mistakes(lab.path) if probe.name == bug.name), None)
    if probe is None:
        return f"is taken for no known mistake: write its probe `def {function}(lab)` in {FILE}"
    if not probe.overdue and probe.task != min(filter(None, tasks), default=None):
        return (
            f"is taken for no known mistake: its probe {function} is of task {probe.task}, and "
            "runs only if that task is the first that fails"
        )
    return f"is taken for no known mistake: its probe {function} does not return True"


def _is_fair_kill(lab: Lab, name: str, result: Outcome) -> bool:
    """A broken rule kills: a wrong value, an exception from the layer, or a broken cost bound."""
    if result["kind"] == ResultKind.RAISED:
        # Such errors show an edit that does not fit the code, not a plausible mistake.
        return not re.match(
            "NameError|AttributeError|UnboundLocalError|ImportError", result["message"]
        )
    if result["kind"] == ResultKind.TIMEOUT:
        return any(test.name == name and test.timeout is not None for test in lab.tests)
    return bool(result["kind"] == ResultKind.ASSERTION)
