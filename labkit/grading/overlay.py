"""Hidden tests: a private folder with more tests of a lab's rules, on data unknown to students.

    OVERLAY/
        LAB, the name of its folder/
            test_hidden.py

    @pytest.mark.task(2)
    @pytest.mark.points(3)
    @pytest.mark.varies("test_overlapping_starts")
    @pytest.mark.visibility("after_published")
    def test_hidden_overlapping_starts(lab): ...

A hidden test varies a test that students have: other corpora, another seed. It has that test's rule
and task, and its points are taken from that test's, so that a lab stays at its 100 points. The file
may import the helpers of the lab's tests: `from test_lab import feed`.

An overlay cannot add a rule: a submission that keeps the lab's rules passes, whatever the data.
"""

import dataclasses
import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.course.lab import Lab
from labkit.course.manifest import Test, read_manifest
from labkit.errors import LabFolderError, UsageError
from labkit.running.import_file import import_file
from labkit.running.reporting.explain import VISIBLE

FILE = "test_hidden.py"
# Gradescope's words, in the order in which tests run: a submission must not be able to remember
# hidden data and reveal it in a later test that its student may see.
VISIBILITIES = (VISIBLE, "after_due_date", "after_published", "hidden")
_MARKS = {"task", "points", "timeout", "varies", "visibility"}
_HELPERS = "test_lab"


@dataclass(frozen=True)
class HiddenTest(Test):
    """A test of an overlay.

    Attributes:
        varies: the name of the lab's test whose rule it tests on other data.
        visibility: when students may see it, one of `VISIBILITIES`.
    """

    varies: str
    visibility: str


@dataclass(frozen=True)
class Overlay:
    """The hidden tests of one lab. Build it with `read_overlay`.

    Attributes:
        lab: the lab.
        path: the file with the tests.
        tests: those of the file, in the order in which they run.
    """

    lab: Lab
    path: Path
    tests: tuple[HiddenTest, ...]

    @property
    def digest(self) -> str:
        """The SHA-256 of the file. It also seeds the tests: the seed is as private as they are."""
        return sha256(self.path.read_bytes()).hexdigest()

    def public_tests(self) -> tuple[Test, ...]:
        """Return the lab's tests, each without the points that hidden tests took from it."""
        taken: Counter[str] = Counter()
        for test in self.tests:
            taken[test.varies] += test.points
        return tuple(
            dataclasses.replace(test, points=test.points - taken[test.name])
            for test in self.lab.tests
        )

    def functions(self) -> Mapping[str, Callable[..., object]]:
        """Return the test functions by name."""
        return vars(_import(self.path, self.lab.test_file))


def read_overlay(folder: Path, lab: Lab) -> Overlay | None:
    """Return the hidden tests that `folder` has for a lab, or None.

    Raises:
        UsageError: the folder does not exist, or a test breaks a rule of overlays; the message
            names the file, the test and the fix.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no overlay folder {folder}")
    path = folder / lab.name / FILE
    if not path.is_file():
        if path.parent.is_dir():
            raise UsageError(f"{path.parent} has no {FILE}: the hidden tests of a lab go there")
        return None
    try:
        manifest = read_manifest(path)
        module = _import(path, lab.test_file)
    except LabFolderError as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # pytest's own exceptions, of skip and fail, do not derive from `Exception`.
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from None
    if not manifest:
        raise UsageError(f"{path} has no test: write one, or remove the file")
    tests = [_hidden(test, _marks(getattr(module, test.name)), lab, path) for test in manifest]
    overlay = Overlay(lab, path, tuple(sorted(tests, key=_when_seen)))
    _check_points(overlay)
    return overlay


def _hidden(test: Test, marks: Mapping[str, Any], lab: Lab, path: Path) -> HiddenTest:
    here = f"{path}: {test.name}"
    for mark in sorted(marks.keys() - _MARKS):
        raise UsageError(f"{here}: mark {mark!r} does not belong here; use {sorted(_MARKS)}")
    public = {known.name: known for known in lab.tests if not known.given}
    if test.name in {known.name for known in lab.tests}:
        raise UsageError(f"{here}: the lab has a test of that name; rename this one")
    varied = public.get(marks.get("varies", ""))
    if varied is None:
        raise UsageError(
            f"{here}: name the test that it varies, @pytest.mark.varies(NAME), with NAME one of "
            f"{', '.join(public)}"
        )
    if test.rule not in ("", varied.rule):
        raise UsageError(
            f"{here}: a hidden test has the rule of the test that it varies; remove its docstring, "
            f"or make it {varied.rule!r}"
        )
    if test.task != varied.task:
        raise UsageError(f"{here}: {varied.name} is of task {varied.task}: use the same task")
    if test.points < 1:
        raise UsageError(f"{here}: give it points, at least 1; they are taken from {varied.name}")
    visibility = marks.get("visibility", "hidden")
    if visibility not in VISIBILITIES:
        raise UsageError(
            f"{here}: visibility {visibility!r} is unknown; use {', '.join(VISIBILITIES)}"
        )
    facts = {**vars(test), "rule": varied.rule}
    return HiddenTest(**facts, varies=varied.name, visibility=visibility)


def _check_points(overlay: Overlay) -> None:
    twice = [name for name, count in Counter(t.name for t in overlay.tests).items() if count > 1]
    if twice:
        raise UsageError(f"{overlay.path}: {twice[0]} is defined twice; the first never runs")
    for before, after in zip(overlay.lab.tests, overlay.public_tests(), strict=True):
        if after.points != before.points and after.points < 1:
            raise UsageError(
                f"{overlay.path}: the tests that vary {before.name} take "
                f"{before.points - after.points} of its {before.points} points; "
                "at least 1 must stay with it"
            )


def _when_seen(test: HiddenTest) -> int:
    return VISIBILITIES.index(test.visibility)


def _marks(function: Any) -> dict[str, Any]:
    return {
        mark.name: mark.args[0] if mark.args else None
        for mark in getattr(function, "pytestmark", [])
    }


@functools.cache
def _import(path: Path, lab_tests: Path | None = None) -> ModuleType:
    """Import tests; they find the lab's tests as `test_lab`."""
    before = sys.modules.get(_HELPERS)
    if lab_tests is not None:
        sys.modules[_HELPERS] = _import(lab_tests)
    try:
        return import_file(path, f"{path.stem}_of_{path.parent.name}")
    finally:
        sys.modules.pop(_HELPERS, None)
        if before is not None:
            sys.modules[_HELPERS] = before
