"""The secret seed of gradings: where it is kept, and that its cases do not reach students."""

import hmac

import pytest
from made_grades import made_grade, made_test

from labkit.errors import UsageError
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.ledger import Ledger
from labkit.grading.reading.submission import Submission
from labkit.grading.seed import FILE, grading_seed
from labkit.running.drive import Driver
from labkit.running.score import PUBLIC_SEED

SECRET = "5eed" * 8
DRAWN = '''

@pytest.mark.given
def test_drawn(lab):
    """What is drawn comes out."""
    for text in ("ab", f"drawn-{lab.random.getrandbits(64)}"):
        trace = lab.script(lab.new("Pairs"), [("feed", text)])
        expect(trace.text, text[: len(text) // 2 * 2], trace)
'''


def test_it_is_made_once_kept_to_its_owner_and_another_one_for_each_lab(tiny, tiny_lab, capsys):
    seed = grading_seed(tiny_lab, tiny)
    assert "made" in capsys.readouterr().err
    assert grading_seed(tiny_lab, tiny) == seed
    assert capsys.readouterr() == ("", "")
    assert (tiny / FILE).stat().st_mode & 0o777 == 0o600
    assert [*(tiny / FILE).parent.iterdir()] == [tiny / FILE]
    kept = (tiny / FILE).read_text().strip().encode()
    assert seed == hmac.digest(kept, tiny_lab.name.encode(), "sha256").hex()[:32]


@pytest.mark.parametrize("kept", ["", "5eed\n", "é" * 64, "-" * 64])
def test_a_file_that_holds_something_else_is_named(tiny, tiny_lab, kept):
    (tiny / FILE).parent.mkdir()
    (tiny / FILE).write_text(kept)
    with pytest.raises(UsageError, match="does not contain the seed"):
        grading_seed(tiny_lab, tiny)
    (tiny / FILE).unlink()
    (tiny / FILE).parent.rmdir()
    (tiny / FILE).parent.touch()
    with pytest.raises(UsageError, match="--seed S"):
        grading_seed(tiny_lab, tiny)


def test_with_a_ledger_of_another_machine_a_missing_seed_is_no_new_seed(tiny, tiny_lab, tmp_path):
    ledger = tmp_path / "lab-90.ledger"
    with Ledger(ledger) as book:
        book.note("points", {"student": "ada"})
        grading_seed(tiny_lab, tiny, ledger)
        (tiny / FILE).unlink()
        book.add(made_grade("ada", [made_test("test_a", 1, 20)]))
    with pytest.raises(UsageError, match="from the machine where the ledger was made"):
        grading_seed(tiny_lab, tiny, ledger)
    assert not (tiny / FILE).exists()
    grading_seed(tiny_lab, tiny, tmp_path / "new.ledger")
    grading_seed(tiny_lab, tiny, ledger)


def test_an_edition_without_solutions_has_the_public_one(tiny, tiny_lab):
    tiny_lab.solution.unlink()
    assert grading_seed(tiny_lab, tiny) == PUBLIC_SEED
    assert not (tiny / FILE).exists()


@pytest.fixture
def drawn(tiny_lab, sandbox_in):
    """Grade the solution with lines put into `feed`; return the tests, of which the last draws."""
    tiny_lab.test_file.write_text(tiny_lab.test_file.read_text() + DRAWN)
    start = "text = self._held + text"
    source = tiny_lab.solution.read_text()
    assert start in source

    def of(lines, seed=SECRET):
        edited = source.replace(start, f"{lines}\n        {start}").encode()
        work = Submission("ann", tiny_lab.name, {tiny_lab.name: edited})
        told = Assignment.of(tiny_lab, [tiny_lab], seed)
        of.grade = grade(work, told, sandbox_in("trust"))
        return of.grade.tests

    return of


def test_what_fails_with_the_public_seed_too_is_shown_with_its_cases(drawn):
    wrong = "if text == 'ab': return 'AB'"
    public, secret = drawn(wrong, PUBLIC_SEED), drawn(wrong)
    assert "'AB'" in secret[-1].for_student
    told = [test.for_student for test in secret]
    assert told == [test.for_student for test in public] == [test.detail for test in public]


def test_what_fails_only_with_the_secret_seed_shows_nothing_of_it(drawn):
    bits = Driver(None, f"{PUBLIC_SEED}/test_drawn").random.getrandbits(64)
    found = drawn(f"if text[5:] and text != 'drawn-{bits}' and 'x' not in text: raise KeyError")[-1]
    assert "drawn-" in found.detail
    assert " ".join(found.for_student.split()) == (
        "rule What is drawn comes out. but It passes with seed 0, and fails on cases drawn from a "
        "seed that is kept secret. Try others: LAB_SEED=1 make lab N=90"
    )


def test_a_submission_cannot_remember_what_the_secret_seed_drew(drawn):
    """Its errors tell all that its process has ever seen."""
    remember = "Pairs.seen = getattr(Pairs, 'seen', '') + text * (len(text) > 5)"
    secret = Driver(None, f"{SECRET}/test_drawn").random.getrandbits(64)
    found = drawn(f"{remember}\n        if text[5:]: raise KeyError(Pairs.seen)")[-1]
    assert str(secret) in found.detail
    assert "drawn-" in found.for_student
    assert str(secret) not in found.for_student


PROBE = '''
from labkit.testing import mistake


@mistake(task=1)
def passed_on(lab):
    """It has seen the secret seed."""
    return lab.call(lab.new("Pairs"), "feed", "PROBE") == "seen"
'''


@pytest.mark.parametrize("error", ["KeyError", "NotImplementedError"])
def test_what_students_read_was_there_before_a_worker_saw_the_secret_seed(
    drawn, tiny_lab, tmp_path, error
):
    """Its workers pass on all that they see, here by a file, and its errors tell it."""
    (tiny_lab.path / "course/mistakes.py").write_text(PROBE)
    (tmp_path / "seen").touch()
    secret = str(Driver(None, f"{SECRET}/test_drawn").random.getrandbits(64))
    found = drawn(
        f"seen = __import__('pathlib').Path({str(tmp_path / 'seen')!r})\n"
        f"        if text == 'PROBE': return 'seen' * ({secret!r} in seen.read_text())\n"
        f"        if text[5:] and 'x' not in text:\n"
        f"            with seen.open('a') as file: file.write(text)\n"
        f"            raise {error}(seen.read_text())"
    )
    assert secret in (tmp_path / "seen").read_text()
    assert secret in found[-1].detail
    assert drawn.grade.looks_like is None
    for test in found:
        assert secret not in test.for_student
        assert not test.kind.is_waiting or secret not in test.message
