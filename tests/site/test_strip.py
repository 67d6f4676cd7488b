"""The strip, in this Python: what a reader's code gives is shown as it is, beside the reference."""

import json
import shutil

import pytest

from labkit.browser.strip import MOST_PIECES, STOP, live, pages, stored
from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.serving.showable import shown_of
from labkit.student.progress import Progress

SHOWN = [(lab.number, shown) for lab in find_labs(ROOT) for shown in shown_of(lab)]
ROCKET = "to 🚀"


@pytest.fixture
def course(tmp_path):
    """A copy of the labs, in which starters can be written."""
    phase = next(ROOT.glob("phase-*"))
    shutil.copytree(phase, tmp_path / phase.name)
    return tmp_path


@pytest.fixture
def strip(course):
    """Show a text: `strip("03", "tokens", "a", source)`; without a source it is the reference."""

    def show(number, part, text, source=None, *, stops=()):
        lab = pick_lab(find_labs(course), number)
        code = lab.solution.read_text("utf-8") if source is None else source
        lab.starter.write_text(code, "utf-8")
        asked = {"lab": number, "part": part, "text": text, "stops": list(stops)}
        # As the page gets it.
        return json.loads(json.dumps(live(asked, course)))

    return show


def text_of(rows, whose):
    cells = [row[whose] for row in rows if row[whose]]
    return "".join(text for cell in cells for _, text, _ in cell["emitted"])


@pytest.mark.parametrize(("number", "shown"), SHOWN, ids=[f"{n}-{s.role}" for n, s in SHOWN])
def test_the_reference_as_ones_own_code_gives_what_the_reference_gives(strip, number, shown):
    for text in shown.examples.values():
        said = strip(number, shown.role, text, stops=[STOP])
        assert said["own"]["failed"] is None
        assert len(said["rows"]) > 3
        for row in said["rows"]:
            assert row["own"] == row["reference"]
            assert not (row["own"] or {}).get("raised")
            # What is naive may fall over a call that is broken.
            assert shown.role == "calls" or not (row.get("naive") or {}).get("raised")


def test_a_rocket_is_held_byte_by_byte_beside_the_naive_way(strip):
    rows = strip("03", "tokens", ROCKET)["rows"]
    assert [row["token"] for row in rows] == [*ROCKET.encode(), None]
    assert [row["own"]["held"]["tokens"] for row in rows[3:7]] == [
        [0xF0], [0xF0, 0x9F], [0xF0, 0x9F, 0x9A], []
    ]  # fmt: skip
    assert text_of(rows, "own") == ROCKET
    assert text_of(rows, "naive") == "to ����"


def test_escapes_are_bytes(strip):
    rows = strip("03", "tokens", r"a\xff\\xff\n")["rows"]
    assert bytes(row["token"] for row in rows[:-1]) == b"a\xff\\xff\n"
    assert text_of(rows, "own") == "a�\\xff\n"


def test_a_real_vocabulary_has_tokens_of_several_bytes(strip):
    rows = strip("07", "tokens", "the the 🚀")["rows"]
    data = [bytes(row["bytes"]) for row in rows[:-1]]
    assert b"".join(data) == "the the 🚀".encode()
    assert max(map(len, data)) > 2
    assert text_of(rows, "own") == "the the 🚀"


def test_a_known_bug_is_seen_where_it_is(strip, course):
    lab = pick_lab(find_labs(course), "03")
    bug = next(bug for bug in lab.bugs if bug.name == "decode-alone")
    source = lab.solution.read_text("utf-8").replace(bug.find, bug.replace)
    rows = strip("03", "tokens", ROCKET, source)["rows"]
    differs = [place for place, row in enumerate(rows) if row["own"] != row["reference"]]
    assert differs[0] == 3
    assert text_of(rows, "own") != text_of(rows, "reference") == ROCKET


def test_the_starter_says_what_is_to_do_and_the_reference_goes_on(strip, course):
    for lab in find_labs(course):
        for shown in shown_of(lab):
            text = next(iter(shown.examples.values()))
            source = lab.pristine_starter.read_text("utf-8")
            said = strip(lab.number, shown.role, text, source, stops=[STOP])
            told = said["own"]["failed"] or said["rows"][0]["own"]
            assert told["raised"].startswith(f"{lab.label} task ")
            assert "is not written yet" in told["raised"]
            assert told["line"]
            assert len(said["rows"]) > 3


@pytest.mark.parametrize(
    ("source", "failed"),
    [
        ("def f(:", "starter.py line 1 is not valid Python"),
        ("import numpy", "starter.py line 1 imports 'numpy'"),
        ("x = 1 / 0", "starter.py stopped at line 1 (`x = 1 / 0`)"),
        ("", "AttributeError: starter.py has no 'StreamingDetokenizer'"),
        ("while True: pass", "starter.py was still running"),
    ],
)
def test_code_that_cannot_be_used_says_why_and_the_others_run(strip, monkeypatch, source, failed):
    monkeypatch.setattr("labkit.browser.strip.SECONDS", 0.2)
    said = strip("03", "tokens", "é", source)
    assert said["own"]["failed"]["raised"].startswith(failed)
    assert text_of(said["rows"], "reference") == "é"
    assert [row["own"] for row in said["rows"]] == [None] * 3


DETOKENIZER = """
class StreamingDetokenizer:
    held = b""
    def flush(self):
        return ""
    def feed(self, token_id):
        if token_id < 0x80:
            return chr(token_id)
        {}
"""


@pytest.mark.parametrize(
    ("body", "raised"),
    [
        ("raise KeyError(token_id)", "KeyError: 195"),
        ("raise SystemExit", "SystemExit: "),
        ("return token_id", "TypeError: the result of feed is 195; it must be a str"),
        ("return self.feed(token_id)", "RecursionError: "),
        ("while True: pass", "was still running at the time limit: is there an endless loop?"),
        ("self.held = 3\n        return ''", "TypeError: held is 3; it must be str or bytes"),
    ],
)
def test_what_raises_or_loops_is_shown_at_its_token_and_ends_only_ones_own(
    strip, monkeypatch, body, raised
):
    monkeypatch.setattr("labkit.browser.strip.SECONDS", 0.2)
    rows = strip("03", "tokens", "aé!", DETOKENIZER.format(body))["rows"]
    assert [row["own"] and row["own"]["raised"] for row in rows[:1]] == [None]
    assert rows[1]["own"]["raised"].startswith(raised)
    assert [row["own"] for row in rows[2:]] == [None] * 3
    assert text_of(rows, "own") == "a"
    assert text_of(rows, "reference") == "aé!"
    assert rows[1]["own"]["line"] == (None if raised.startswith("TypeError") else 9)


def test_prints_are_shown_and_what_is_endless_is_cut(strip):
    source = DETOKENIZER.format("print('seen', token_id)\n        return 'x' * 10_000_000")
    said = strip("03", "tokens", "é", source)
    assert said["printed"] == "seen 195\nseen 169\n"
    assert len(json.dumps(said)) < 20_000


def test_held_that_is_still_to_do_keeps_nobody_from_looking(strip):
    source = DETOKENIZER.format("return ''").replace(
        'held = b""', "held = property(lambda self: exec('raise NotImplementedError'))"
    )
    rows = strip("03", "tokens", "ab", source)["rows"]
    assert text_of(rows, "own") == "ab"
    assert {row["own"]["held"] is None for row in rows} == {True}


def test_a_text_that_is_too_long_and_a_part_that_is_not_there_are_refused(strip):
    with pytest.raises(UsageError, match=f"has {MOST_PIECES + 1} pieces"):
        strip("03", "tokens", "a" * (MOST_PIECES + 1))
    with pytest.raises(UsageError, match="lab-03 has no 'calls' to show"):
        strip("03", "calls", "a")


# Where several labs work together


def test_the_pipeline_runs_on_ones_own_labs_where_they_pass(strip, course):
    labs = {lab.number: lab for lab in find_labs(course)}
    labs["03"].starter.write_text(DETOKENIZER.format("return '?'"), "utf-8")
    text = "é END"
    assert text_of(strip("05", "pipeline", text, stops=[STOP])["rows"], "own") == "é "
    Progress(course).save_score(labs["03"], 100)
    said = strip("05", "pipeline", text, stops=[STOP])
    assert text_of(said["rows"], "own") == "?? "
    assert text_of(said["rows"], "reference") == "é "
    assert [part["own"] for part in said["own"]["parts"]] == [True, False, False]


def test_without_references_there_is_none_and_what_does_not_pass_is_named(strip, course):
    sources = {lab.number: lab.solution.read_text("utf-8") for lab in find_labs(course)}
    for lab in find_labs(course):
        lab.solution.unlink()
    rows = strip("03", "tokens", ROCKET, sources["03"])["rows"]
    assert text_of(rows, "own") == ROCKET
    assert "reference" not in rows[0]
    said = strip("05", "pipeline", ROCKET, sources["05"], stops=[STOP])
    assert (
        "lab-05 builds on lab-03, but your current lab-03 does not pass"
        in said["own"]["failed"]["raised"]
    )
    for number in ("03", "04", "01"):
        lab = pick_lab(find_labs(course), number)
        lab.starter.write_text(sources[number], "utf-8")
        Progress(course).save_score(lab, 100)
    said = strip("05", "pipeline", ROCKET, sources["05"], stops=[STOP])
    assert text_of(said["rows"], "own") == ROCKET


def test_stored_rows_are_those_of_the_reference(strip):
    told, kept = pages(ROOT), stored(ROOT)
    assert told["12"] == []
    assert {number for number, parts in told.items() if not parts} == {"12"}
    for number, parts in told.items():
        for part in parts:
            assert list(kept[number][part["role"]]) == list(part["examples"].values())
    text = told["03"][0]["examples"]["Emoji"]
    rows = strip("03", "tokens", text)["rows"]
    kept = json.loads(json.dumps(kept["03"]["tokens"][text]))
    assert kept == [{name: row[name] for name in kept[0]} for row in rows]
    assert kept[0].keys() == {"token", "bytes", "text", "reference"}
