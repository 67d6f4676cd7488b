"""Before a cohort: the reference has every point and a known bug has not, or nothing is graded."""

from dataclasses import replace

import pytest

from labkit.course.lab import find_labs
from labkit.errors import InfrastructureError
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.overlay import read_overlay
from labkit.grading.preflight import check_tests

HIDDEN = """
import pytest


@pytest.mark.task(1)
@pytest.mark.points(5)
@pytest.mark.varies("test_held")
def test_hidden(lab):
    {body}
"""


@pytest.fixture
def check(tiny, tmp_path, sandbox_in):
    """Check the tiny lab with a hidden test."""
    sandbox = sandbox_in("trust")

    def check(body="pass", **changes):
        labs = find_labs(tiny)
        path = tmp_path / "overlay" / labs[0].name / "test_hidden.py"
        path.parent.mkdir(parents=True)
        path.write_text(HIDDEN.format(body=body))
        told = Assignment.of(labs[0], labs, "7", read_overlay(path.parents[1], labs[0]))
        check_tests(
            {told.lab.name: told},
            lambda work: [replace(grade(it, told, sandbox), **changes) for it in work],
        )

    return check


def test_a_machine_that_kills_is_not_taken_for_a_wrong_test(check):
    with pytest.raises(InfrastructureError, match=r"the reference of lab-90-pairs: killed$"):
        check(doubt="killed")


def test_a_machine_that_kills_for_a_moment_is_tried_once_more(tiny, sandbox_in):
    labs, ends = find_labs(tiny), ["killed", None]
    told, asked = Assignment.of(labs[0], labs, "7"), []

    def grade_all(work):
        asked.append([item.student for item in work])
        doubt = ends.pop(0)
        return [replace(grade(item, told, sandbox_in("trust")), doubt=doubt) for item in work]

    check_tests({told.lab.name: told}, grade_all)
    assert len(asked) == 2
    assert asked[0] == asked[1]


def test_right_tests_pass_without_a_word(check, capsys):
    check()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('of its own')", r"test_hidden \(test-error: .*of its own\)"),
        ("pytest.fail('oh')", r"test_hidden \(test-error: .*oh"),
        ("pytest.skip('oh')", r"test_hidden \(test-error: .*oh"),
        ("raise SystemExit(0)", r"test_hidden \(test-error: .*SystemExit"),
        ("lab.call(lab.new('Pears'), 'feed', 'a')", r"test_hidden \("),
    ],
)
def test_a_hidden_test_that_the_reference_fails_stops_all(check, body, told):
    with pytest.raises(InfrastructureError, match=f"has 95 of 100 points, .*{told}"):
        check(body)


def test_a_known_bug_with_every_point_stops_all(check, tiny, tiny_lab):
    path = tiny_lab.path / "course/bugs.toml"
    bug = tiny_lab.bugs[0]
    text = path.read_text().replace(f'replace = "{bug.replace}"', f'replace = "{bug.find} "', 1)
    path.write_text(text)
    with pytest.raises(InfrastructureError, match=f"{bug.name}.*has every point"):
        check()


def test_an_edition_without_references_has_nothing_to_check(check, tiny_lab):
    tiny_lab.solution.unlink()
    check("raise ValueError")
