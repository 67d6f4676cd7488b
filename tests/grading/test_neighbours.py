"""Cheats are graded beside honest work, two at a time: what is honest has the grade that it has
alone.
"""

from cheats import CHEATS, handed_in
from tiny_cohort import plain
from walled import TINY

from labkit.course.lab import find_labs
from labkit.grading import cohort
from labkit.grading.assignment import Assignment
from labkit.grading.cohort import grade_all
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission

# Those that reach for other processes, for what a machine has one of, or for whoever reads them.
HARMFUL = """
signals signals_always forks thread_bomb stays_alive signal_storm empty_reason four_megabytes
""".split()  # noqa: SIM905


def test_honest_work_beside_cheats_has_the_grade_that_it_has_alone(walled, sandbox_in, monkeypatch):
    # What was killed is not graded again, as it would be.
    def once(work, assignments, mode, outcomes):
        return outcomes([*enumerate(work)], False)

    monkeypatch.setattr(cohort, "judged", once)
    labs = find_labs(TINY)
    lab, assignment = labs[0], Assignment.of(labs[0], labs)
    sources = {name: handed_in(text) for found in CHEATS.values() for name, text in found.items()}
    earns = {name: points for points, found in CHEATS.items() for name in found}
    work = []
    for number, name in enumerate(HARMFUL):
        # Each honest one is another, so that each is graded.
        honest = lab.solution.read_bytes() + b"# %d\n" % number
        work.append(Submission(name, lab.name, {lab.name: sources[name]}))
        work.append(Submission("honest", lab.name, {lab.name: honest}))
    alone = grade(work[1], assignment, sandbox_in(walled)).to_json()
    grades = plain(grade_all(work, {lab.name: assignment}, mode=walled, jobs=2))
    assert {one["student"]: one["score"] for one in grades} == {
        "honest": 100, **{name: earns[name] for name in HARMFUL}
    }  # fmt: skip
    for one in grades[1::2]:
        assert {**one, "submission": ""} == {**alone, "submission": ""}
