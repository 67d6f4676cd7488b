import errno
import hmac
import json
import logging
import os
from functools import partial
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_grades import made_grade, made_test

from labkit.errors import InfrastructureError, UsageError
from labkit.grading import ledger as module
from labkit.grading.ledger import Ledger


def grade(number, student="ann", **changes):
    row = made_test("test_a", 1, number, "raised", f"é \ud800 {number}")
    return made_grade(student, [row], **{"submission": f"s{number}", **changes})


kept = partial(grade, student="")


def write(path, numbers):
    with Ledger(path) as ledger:
        for number in numbers:
            ledger.add(grade(number))
    return path.read_bytes()


def found(path, numbers):
    with Ledger(path) as ledger:
        return [ledger.find(grade(number).key) for number in numbers]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "grades.jsonl"


@pytest.fixture
def no_fsync(monkeypatch):
    """Nobody pulls the plug in tests, and a busy disk takes long to be sure."""
    monkeypatch.setattr(module.os, "fsync", lambda file: None)


def test_what_was_added_is_found_at_once_and_later_byte_for_byte(path):
    with Ledger(path) as ledger:
        ledger.add(grade(1))
        assert ledger.find(grade(1).key) == kept(1)
    assert found(path, [1]) == [kept(1)]
    # Every line is JSON, and none says who.
    lines = write(path, [2]).splitlines()
    names = [list(json.loads(line)) for line in lines]
    assert names == [["ledger", "key"], *[["sum", "grade"]] * 2]
    assert not [line for line in lines if b"ann" in line]


@pytest.mark.parametrize("field", ["submission", "lab", "assignment", "mode"])
def test_a_grade_that_depends_on_something_else_is_kept_and_not_found(path, field):
    before = write(path, [1])
    with Ledger(path) as ledger:
        assert ledger.find(grade(1, **{field: "other"}).key) is None
        ledger.add(grade(1, **{field: "other"}))
        assert ledger.find(grade(1).key) == kept(1)
    assert path.read_bytes().startswith(before)


def test_wherever_the_last_line_was_cut_off_the_lines_before_it_stay(path, no_fsync):
    two, three = write(path, [1, 2]), write(path, [3])
    ends = [place for place, byte in enumerate(three, 1) if byte == ord("\n")]
    step = 1 if os.environ.get("SOAK") else 9
    near = {end + by for end in ends for by in (-2, -1, 0, 1)}
    for size in sorted({*range(0, len(three), step), *near} & {*range(len(three))}):
        path.write_bytes(three[:size])
        whole = size >= len(two)
        assert found(path, [2, 3]) == [kept(2) if whole else None, None]
        write(path, [3] if whole else [])
        if whole:
            assert path.read_bytes() == three


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_byte_costs_its_line_and_gives_no_wrong_grade(path, no_fsync, data):
    path.unlink(missing_ok=True)
    whole = bytearray(write(path, range(4)))
    start = whole.index(b"\n") + 1
    place = data.draw(st.integers(start, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    path.write_bytes(whole)
    grades = found(path, range(4))
    assert all(grade in (None, kept(n)) for n, grade in enumerate(grades))
    # A line end that is gone makes one line of two, and the next one rests on the second.
    assert 1 <= grades.count(None) <= 3
    write(path, [n for n in range(4) if grades[n] is None])
    assert found(path, range(4)) == [kept(n) for n in range(4)]


def other_shape(lines, key):
    """Make a second grade that has no tests, with a sum that is right."""
    told = json.loads(lines[2])["grade"]
    del told["tests"]
    body, before = json.dumps(told).encode(), json.loads(lines[1])["sum"].encode()
    sum = hmac.digest(key, before + b'"grade":' + body, "sha256").hex().encode()
    lines[2] = b'{"sum":"%s","grade":%s}\n' % (sum, body)


def edit(lines, key):
    lines[2] = lines[2].replace(b'"max_score":2', b'"max_score":9')


def edit_and_sum_anew(lines, key):
    told = json.loads(lines[2])
    body = json.dumps({**told["grade"], "score": 9}).encode()
    lines[2] = b'{"sum":"%s","grade":%s}\n' % (sha256(body).hexdigest().encode(), body)


def cut(lines, key):
    del lines[2]


def turn(lines, key):
    lines[2:4] = reversed(lines[2:4])


def repeat(lines, key):
    lines.append(lines[1])


@pytest.mark.parametrize(
    ("tamper", "lost", "named"),
    [
        (edit, [2], [3]),
        (edit_and_sum_anew, [2, 3], [3, 4]),
        (other_shape, [2, 3], [3, 4]),
        (cut, [2, 3], [3]),
        (turn, [2, 3, 4], [3, 4, 5]),
        (repeat, [], [6]),
    ],
)
def test_a_line_that_was_not_written_there_is_named_and_not_used(path, caplog, tamper, lost, named):
    lines = write(path, [1, 2, 3, 4]).splitlines(keepends=True)
    tamper(lines, path.with_name(path.name + ".key").read_bytes().strip())
    path.write_bytes(b"".join(lines))
    with caplog.at_level(logging.WARNING):
        grades = found(path, [1, 2, 3, 4])
    assert grades == [None if n in lost else kept(n) for n in (1, 2, 3, 4)]
    told = "line %d was edited, or was moved, and is left out: "
    said = [message.partition(": ")[0] + ": " for message in caplog.messages]
    assert said == [f"{path} {told % number}" for number in named]
    write(path, lost)
    assert found(path, [1, 2, 3, 4]) == [kept(n) for n in (1, 2, 3, 4)]


def test_a_ledger_needs_its_own_key(path):
    key = path.with_name(path.name + ".key")
    whole = write(path, [1])
    assert key.stat().st_mode & 0o777 == 0o600
    kept_key = key.read_bytes()
    for content, message in ((None, "is missing"), (b"", "is missing"), (b"0" * 64, "another")):
        key.unlink(missing_ok=True)
        if content is not None:
            key.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            Ledger(path)
        assert path.read_bytes() == whole
    key.write_bytes(kept_key)
    assert found(path, [1]) == [kept(1)]
    # A grader that was killed at once left nothing that matters.
    path.write_bytes(b"")
    key.write_bytes(b"")
    assert found(path, [1]) == [None]


def test_another_file_is_refused_and_left_alone(path, tmp_path):
    for content in (b"name,score\n", b"{}", b"\n", b"\0" * 99):
        path.write_bytes(content)
        with pytest.raises(UsageError, match="not a ledger"):
            Ledger(path)
        assert path.read_bytes() == content
    for name in (".", "/dev/full", "none/grades.jsonl"):
        with pytest.raises(UsageError, match="name a file"):
            Ledger(tmp_path / name)


def test_a_second_grader_is_refused_until_the_first_one_is_done(path):
    with Ledger(path), pytest.raises(UsageError, match="another grader is using it"):
        Ledger(path)
    assert found(path, [1]) == [None]


def test_a_full_disk_says_so_and_leaves_whole_lines(path, monkeypatch):
    before = write(path, [1])
    real = os.write

    def full(file, data):
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[:50])

    with Ledger(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(module.os, "write", full)
            with pytest.raises(InfrastructureError, match="No space left"):
                ledger.add(grade(2))
        assert path.read_bytes() == before
        assert ledger.find(grade(2).key) is None
        ledger.add(grade(3))
    assert found(path, [1, 2, 3]) == [kept(1), None, kept(3)]


def test_a_grade_is_on_the_disk_before_it_counts(path, monkeypatch):
    seen = []
    real = os.fsync

    def note(file):
        real(file)
        seen.append(os.fstat(file).st_size)

    with Ledger(path) as ledger:
        monkeypatch.setattr(module.os, "fsync", note)
        ledger.add(grade(1))
        assert seen == [path.stat().st_size]


def test_notes_are_kept_beside_grades_by_their_kind(path):
    note = {"student": "é", "points": ["5", "talk"]}
    with Ledger(path) as ledger:
        ledger.note("points", note)
        ledger.add(grade(1))
        ledger.note("points", {})
        ledger.note("other", 3)
    with Ledger(path) as ledger:
        assert (ledger.notes("points"), ledger.notes("other")) == ([note, {}], [3])
        assert ledger.notes("none") == []
        assert ledger.find(grade(1).key) == kept(1)
        assert len(ledger) == 1
