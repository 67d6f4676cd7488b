"""The mutants of solutions: how they are made, and that the first of each lab die. Those of the
product can all be put in.
"""

import subprocess
import sys

import pytest
from solution_mutants import (
    ROOT,
    Mutant,
    list_faults,
    mutants_of,
    read_equivalent,
    solution_mutants,
    survivors,
)

from labkit.course.lab import find_labs

LABS = {lab.number: lab for lab in find_labs(ROOT) if lab.hunt is None}


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ("return a < b", ["return a < b -> return None", "a < b -> a <= b"]),
        ("return 0 <= a", ["return 0 <= a -> return None", "0 <= a -> 0 < a", "0 -> 1"]),
        ("a = b + 1\n    return", ["no a = b + 1", "b + 1 -> b - 1", "1 -> 2"]),
        ("a = b\n    b = 2", ["no a = b", "b = 2 before a = b", "no b = 2", "2 -> 3"]),
        ("a = 'x'\n    b = ''", ["no a = 'x'", "no b = ''", "'x' -> ''"]),
        ("if a and b: raise V('x')", [
            "a and b -> True", "a and b -> False", "no raise V('x')", "a and b -> a or b",
            "a and b -> b", "a and b -> a",
        ]),
        ("while not a: break", [
            "not a -> True", "not a -> False", "break -> continue", "not a -> +a"]),
        ("while True: break", ["True -> False", "break -> continue"]),
        ("a = set(a)\n    b = set(b)", ["no a = set(a)", "no b = set(b)"]),
        (
            "c = a.f()\n    b = a.g()",
            ["no c = a.f()", "no b = a.g()", "b = a.g() before c = a.f()"],
        ),
        ("'Words.'", []),
        ("return True", ["return True -> return None", "True -> False"]),
    ],
)  # fmt: skip
def test_one_change_a_mutant(body, changes):
    source = f"def f(a, b):\n    {body}\n"
    mutants = [*mutants_of(source)]
    assert sorted(m.name for m in mutants) == sorted(f"f: {change}" for change in changes)
    assert len({m.source for m in mutants} | {source}) == len(mutants) + 1


def test_each_fault_of_the_product_can_be_put_in():
    program = ROOT / "tests/mutants/run.py"
    done = subprocess.run([sys.executable, program, "--dry"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_equal_changes_have_numbers():
    names = [m.name for m in mutants_of("def f(a):\n    return a[1:1]")]
    assert names == ["f: return a[1:1] -> return None", "f: 1 -> 2", "f: 1 -> 2 (2)"]


def test_the_first_mutants_of_each_lab_die():
    first = [(lab, solution_mutants(lab)[:2]) for lab in LABS.values()]
    assert survivors(first, read_equivalent()) == []


def test_a_mutant_that_lives_and_one_that_is_listed_are_faults():
    lab = LABS["02"]
    alive = Mutant("alive", lab.solution.read_text(encoding="utf-8") + "\n")
    dead = solution_mutants(lab)[0]
    assert survivors([(lab, [alive, dead])], {"02": [dead.name]}) == [
        "02 alive: has all points",
        f"02 {dead.name}: is listed, but fails a test",
    ]
    assert survivors([(lab, [alive, dead])], {"02": ["alive"]}) == []


@pytest.mark.parametrize(
    ("listed", "faults"),
    [
        (["m0"], []),
        (["gone"], ["02 gone: is listed, but no mutant has this name"]),
        (["m0", "m1"], ["02: 2 of 20 mutants are listed; at most 5% may be"]),
    ],
)
def test_faults_of_the_list(listed, faults):
    assert [*list_faults("02", [Mutant(f"m{n}", "") for n in range(20)], listed)] == faults


def test_the_list_is_right():
    listed = read_equivalent()
    assert {*listed} <= {*LABS}
    for number, names in listed.items():
        assert [*list_faults(number, solution_mutants(LABS[number]), names)] == []
