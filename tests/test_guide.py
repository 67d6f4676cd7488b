"""The pages for all labs say what happens: the report is the one that this code gets."""

import os
import re
import runpy
import subprocess
import sys

import pytest

from labkit.course.lab import ROOT, find_labs, pick_lab

GUIDE = next(ROOT.glob("phase-*/guide"))


def blocks(kind):
    page = (GUIDE / "failing-report.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_failing_report_is_that_of_the_code_above_it(tmp_path):
    starter = tmp_path / "starter.py"
    starter.write_text(*blocks("python"), encoding="utf-8")
    lab = pick_lab(find_labs(ROOT), "03")
    command = [sys.executable, "-m", "pytest", "-q", str(lab.path), "--lab-task", "2"]
    env = {**os.environ, "LAB_IMPL": str(starter), "LAB_SEED": "0", "COLUMNS": "80"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    begin, end = blocks("text")
    assert begin in done.stdout
    assert end in done.stdout


def tables(heading):
    """Yield the rows of each table of a page that has such a first cell, without markup."""
    page = (GUIDE / "properties.md").read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        first, _, *rows = (line.strip("|").split("|") for line in table.splitlines())
        if first[0].strip() == heading:
            yield [[re.findall(r"`([^`]*)`", cell) for cell in row] for row in rows]


def made(number, name, *arguments):
    lab = pick_lab(find_labs(ROOT), number)
    return runpy.run_path(str(lab.solution))[name](*arguments)


def test_the_traces_of_properties_with_a_stop_are_true():
    assert len([*tables("stop `END`")]) == 2
    for rows in tables("stop `END`"):
        matcher = made("04", "StopStringMatcher", ["END"])
        for piece, emitted, held, *_ in rows:
            out = matcher.feed(piece[0]) if piece else matcher.flush()
            assert (out, matcher.held) == ("".join(emitted), "".join(held))


def test_the_traces_of_properties_with_pieces_are_true():
    (rows,) = tables("pieces")
    for pieces, emitted in rows:
        matcher = made("04", "StopStringMatcher", ["END"])
        assert "".join(map(matcher.feed, pieces)) + matcher.flush() == emitted[0]


def test_the_traces_of_properties_with_calls_are_true():
    once, total, isolated = tables("call")
    matcher, decoder = made("04", "StopStringMatcher", ["END"]), made("03", "StreamingDetokenizer")
    names = {"first": decoder, "second": made("03", "StreamingDetokenizer")}
    for rows, where in ((once, "matcher."), (total, "decoder."), (isolated, "")):
        for call, result, *_ in rows:
            out = eval(where + call[0], {"matcher": matcher, "decoder": decoder, **names})
            assert out == result[0].strip('"')


# What labs say without an explanation has one in the glossary.
TERMS = [
    "BOS, EOS", "code point", "continuation byte", "lone surrogate", "maximal subpart",
    "overlong form", "proper prefix", "suffix", "U+FFFD",
]  # fmt: skip


def test_the_glossary_has_the_terms_of_unicode_and_its_rows_are_in_order():
    page = (GUIDE / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| (.*?) \|", page, re.MULTILINE)[1:]
    assert [term for term in TERMS if term not in terms] == []
    assert terms == sorted(terms, key=str.lower)


# Sentences that readers misread before: where they are, and what they have to say.
SENTENCES = [
    (
        "04",
        "README.md",
        "Drop a stop that can never win**: a stop `S` if another stop is in `S[:-1]`",
    ),
    (
        "04",
        "README.md",
        "press *A stop string* and watch the row *stops*: `f`, `fi` and `fiv` are held",
    ),
    ("04", "README.md", "restart a server that was started before the lab passed"),
    ("01", "README.md", "restart a server that was started before the lab passed"),
    ("02", "README.md", "Press *Emoji and 你好*"),
    ("04", "course/hints.toml", "gets slower as the text so far, or a stop, gets longer?"),
]


@pytest.mark.parametrize(("number", "file", "sentence"), SENTENCES)
def test_a_sentence_that_was_misread_says_what_it_means(number, file, sentence):
    lab = pick_lab(find_labs(ROOT), number)
    assert sentence in " ".join((lab.path / file).read_text(encoding="utf-8").split())


def test_each_lab_says_where_its_commands_are_typed():
    for lab in find_labs(ROOT):
        run = lab.readme.read_text(encoding="utf-8").partition("## Run\n")[2].partition("## ")[0]
        assert "Run both in the repository's root." in run


def minutes(time):
    """Return the least and the most minutes of a lab's time, such as `2.5-3 hours`."""
    span, unit = time.split()
    least, _, most = span.partition("-")
    scale = 60 if unit == "hours" else 1
    return [scale * float(least), scale * float(most or least)]


def test_the_hours_of_a_term_are_those_of_its_labs():
    labs = {lab.number: lab for lab in find_labs(ROOT)}
    page = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| (\d+ to \d+) hours \|$", page, re.MULTILINE)
    assert len(rows) >= 6
    for plan, hours in rows:
        numbers = {*re.findall(r"\b\d\d\b", plan)}
        for first, last in re.findall(r"(\d\d) to (\d\d)", plan):
            numbers |= {f"{number:02}" for number in range(int(first), int(last) + 1)}
        if "core track" in plan:
            numbers |= {number for number, lab in labs.items() if lab.track == "core"}
        if plan.startswith("all labs"):
            numbers = {*labs}
        times = zip(*(minutes(labs[number].time) for number in numbers), strict=True)
        least, most = (int(sum(part) / 60 + 0.5) for part in times)
        assert hours == f"{least} to {most}", plan
