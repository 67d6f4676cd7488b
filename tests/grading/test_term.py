"""A term of four labs: each mark and average equals a calculation that shares no code with ours."""

import csv
import random
from argparse import ArgumentParser
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import combinations

import pytest
from made_grades import made_grade, made_test

from labkit.course.lab import ROOT, find_labs
from labkit.errors import UsageError
from labkit.grading.ledger import Ledger
from labkit.grading.marks.inputs import read_markings
from labkit.grading.marks.marking import MarkOptions
from labkit.grading.term.average import average, read_weights
from labkit.grading.term.command import add_options, run

LABS = find_labs(ROOT)[:4]
DUE = {lab.name: datetime(2026, 10, 4, 23, 59) + timedelta(weeks=n) for n, lab in enumerate(LABS)}
WEIGHTS = {lab.name: Fraction(n + 1, 2) for n, lab in enumerate(LABS)}
BUDGET = 4


def term(*words):
    parser = ArgumentParser()
    add_options(parser)
    return run(parser.parse_args([*map(str, words)]), ROOT)


def table(path, titles, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([titles, *rows])
    return path


def grade_lab(folder, lab, scores, **options):
    """Grade a lab as `make grade` does, with scores in place of runs; return the changed marks."""
    grades = []
    for entry, score in scores.items():
        tests = [made_test("test_a", 1, score), made_test("test_b", 1, 100 - score, "assertion")]
        own = {"submission": f"{entry} {lab.name}", "assignment": str(score)}
        grades.append(replace(made_grade(entry, tests), lab=lab.name, **own))
    ledger = folder / f"{lab.label}.ledger"
    entries = {lab.name: {grade.student: grade.submission for grade in grades}}
    (marking,) = read_markings(MarkOptions(ledger=ledger, **options), entries, LABS)
    with Ledger(ledger) as book:
        for grade in grades:
            book.add(grade)
    return marking.changes(grades, ledger)


def expected_days(late, left):
    """The late days used and the points taken off, at 10 per day, 50 at most, 15 minutes grace."""

    def taken(seconds):
        return 0 if seconds <= 900 else min(50, 10 * -(-seconds // 86_400))

    return min((taken(late - 86_400 * days), days) for days in range(left + 1))[::-1]


@pytest.mark.parametrize("seed", range(3))
def test_each_mark_of_a_term_equals_plain_arithmetic(tmp_path, seed, capsys):
    draw = random.Random(seed)
    names = [f"s{number:02}" for number in range(40)]
    canvas = "Student,ID,SIS Login ID,Section\n" + "".join(
        f'"{name}",{number},{name},A\n' for number, name in enumerate(names, 100)
    )
    roster = tmp_path / "roster.csv"
    roster.write_text(canvas)
    work = {(name, lab.name): draw.randrange(101) for name in names for lab in LABS
            if draw.random() < 0.9}  # fmt: skip
    late = {key: draw.choice([-5000, 0, 900, 901, 86_400, 87_301, 200_000, 900_000])
            for key in work}  # fmt: skip
    extended = {key: draw.choice([24, 48, "excused"])
                for key in ((name, lab.name) for name in names for lab in LABS)
                if draw.random() < 0.15}  # fmt: skip
    points = {key: draw.randrange(-10, 11) for key in work if draw.random() < 0.2}
    regraded = {key: draw.randrange(101) for key in work if draw.random() < 0.2}
    extensions = table(
        tmp_path / "extensions.csv", ["student", "lab", "extension", "reason"],
        [(name, lab[4:6], what, "x") for (name, lab), what in extended.items()],
    )  # fmt: skip
    ledgers = []
    for n, lab in enumerate(LABS):
        entries = {name: f"{name}_{number}_{number}{n}_starter"
                   for number, name in enumerate(names, 100)
                   if (name, lab.name) in work}  # fmt: skip
        times = table(
            tmp_path / "times.csv", ["student", "submitted_at"],
            [(entry, (DUE[lab.name] + timedelta(seconds=late[name, lab.name])).isoformat())
             for name, entry in entries.items()],
        )  # fmt: skip
        by_hand = table(
            tmp_path / "points.csv", ["student", "points", "reason"],
            [(name, points[name, lab.name], "talk")
             for name in names if (name, lab.name) in points],
        )  # fmt: skip
        scores = {entry: work[name, lab.name] for name, entry in entries.items()}
        options = {"roster": roster, "times": times, "points": by_hand, "extensions": extensions}
        options |= {"due": DUE[lab.name].isoformat(), "late_days": BUDGET, "term": tuple(ledgers),
                    "late": "10% per day, at most 50%, 15 min grace"}  # fmt: skip
        grade_lab(tmp_path, lab, scores, **options)
        ledgers.append(tmp_path / f"{lab.label}.ledger")
    for n, lab in enumerate(LABS):
        # A regrade names the ledger only.
        scores = {f"{name}_{number}_{number}{n}_starter":
                  regraded.get((name, lab.name), work[name, lab.name])
                  for number, name in enumerate(names, 100)
                  if (name, lab.name) in work}  # fmt: skip
        grade_lab(tmp_path, lab, scores, roster=roster)

    weights = ", ".join(f"{lab.number}={float(WEIGHTS[lab.name])}" for lab in LABS)
    out = tmp_path / "term.csv"
    assert term(*ledgers, "--roster", roster, "--weights", weights, "--drop", 1, "--csv", out) == 0
    assert "labkit:" not in capsys.readouterr().err
    rows = {row["student"]: row for row in csv.DictReader(out.open())}
    assert [*rows] == names
    for name in names:
        left, marks = BUDGET, {}
        for lab in LABS:
            key = name, lab.name
            extension = extended.get(key, 0)
            if extension == "excused":
                continue
            mark = 0
            if key in work:
                days, taken = expected_days(late[key] - 3600 * extension, left)
                left -= days
                mark = max(0, max(0, regraded.get(key, work[key]) - taken) + points.get(key, 0))
            marks[lab.name] = mark
        shown = {lab.name: rows[name][lab.label] for lab in LABS}
        assert shown == {lab.name: str(marks.get(lab.name, "")) for lab in LABS}
        assert rows[name]["late_days_left"] == str(left)
        means = [
            sum(WEIGHTS[lab] * marks[lab] for lab in rest)
            / sum(WEIGHTS[lab] for lab in rest)
            for rest in combinations(marks, max(len(marks) - 1, 1))
        ] if marks else []  # fmt: skip
        mean = rows[name]["average"]
        assert bool(mean) == bool(means)
        assert not means or abs(Fraction(mean) - max(means)) <= Fraction(1, 200)


@pytest.fixture
def ledgers(tmp_path):
    """Two ledgers: ada handed in both labs, bob one; cy is excused, eve has points by hand only."""
    extensions = table(tmp_path / "x.csv", ["student", "lab", "extension", "reason"],
                       [("cy", LABS[1].number, "excused", "ill")])  # fmt: skip
    points = table(tmp_path / "p.csv", ["student", "points", "reason"], [("eve", 5, "oral")])
    grade_lab(tmp_path, LABS[0], {"ada": 80, "bob": 50, "cy": 60, "zoe": 1})
    roster = tmp_path / "r.csv"
    roster.write_text("student\nada\nbob\ncy\neve\n")
    grade_lab(tmp_path, LABS[1], {"ada": 90, "cy": 10}, extensions=extensions, points=points,
              roster=roster)  # fmt: skip
    return [tmp_path / f"{lab.label}.ledger" for lab in LABS[:2]]


def test_gradebooks_delete_no_mark_and_the_page_says_why(tmp_path, ledgers, capsys):
    roster = tmp_path / "roster.csv"
    roster.write_text(
        f"Student,ID,SIS Login ID,Section,Lab {LABS[1].number} (7)\n"
        + "ada,0,ada,A,\nbob,1,bob,A,12\ncy,2,cy,A,33\neve,3,eve,A,\n"
    )
    files = {kind: tmp_path / f"out.{kind}" for kind in ("canvas", "html", "csv")}
    options = [word for kind, path in files.items() for word in (f"--{kind}", path)]
    assert term(*ledgers, "--roster", roster, *options) == 0
    assert "1 with a mark for" in (err := capsys.readouterr().err)
    assert "'zoe'" in err
    assert [*csv.reader(files["canvas"].open())][1:] == [
        ["    Points Possible", "", "", "", "100", "100", "100"],
        ["ada", "0", "ada", "A", "80", "90", "85"],
        ["bob", "1", "bob", "A", "50", "12", "25"],
        ["cy", "2", "cy", "A", "60", "EX", "60"],
        ["eve", "3", "eve", "A", "", "5", "2.5"],
    ]
    page = files["html"].read_text()
    assert page.count('class="excused"') == 1
    assert page.count('title="nothing handed in"') == 2
    assert "zoe" not in page
    assert [row[2:4] for row in csv.reader(files["csv"].open())][2:4] == [["50", "0"], ["60", ""]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the ledgers of the labs"),
        (["{0}"], "need --roster FILE"),
        (["{0}x", "--roster", "{r}"], "there is no such ledger"),
        (["{0}", "--roster", "{r}", "--drop", "-1"], "--drop -1: write a number of labs"),
        (["{0}", "--roster", "{r}", "--weights", "77=1"], "no ledger has lab '77'"),
        (["{0}", "--roster", "{r}", "--weights", "02:1"], "'02:1' is not a weight; write '02=1"),
        (["{0}", "--roster", "{r}", "--moodle", "m.csv"], "--moodle needs --roster FILE with"),
        (["{0}", "--roster", "{r}", "--csv", "{0}"], "would overwrite a file"),
    ],
)
def test_a_mistake_in_the_command_says_how_to_write_it(tmp_path, ledgers, words, message):
    names = {"r": tmp_path / "r.csv"}
    with pytest.raises(UsageError) as error:
        term(*(word.format(*ledgers, **names) for word in words))
    assert message in str(error.value)


def test_the_average_drops_the_labs_without_which_it_is_highest():
    weights = read_weights(f"{LABS[1].number}=3, {LABS[3].number}=0", LABS)
    a, b, c, d = (lab.name for lab in LABS)
    shares = {a: Fraction(50), b: Fraction(50), c: Fraction(100), d: Fraction(1)}
    assert average(shares, weights, 1) == (75, (b,))
    assert average(shares, weights, 9) == (100, (a, b))
    assert average({d: Fraction(9)}, weights, 0) == (None, ())
    assert str(average({a: Fraction(100, 3), c: Fraction(0)}, weights, 0)[0]) == "16.67"
    assert str(average({a: Fraction(1, 200)}, weights, 0)[0]) == "0.01"
