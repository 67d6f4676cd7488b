"""The course in a browser, as its readers use it: in Chromium, on the built site.

`make site ARGS=--test` builds the site and runs this; elsewhere it is skipped.
"""

import re
import shutil

import pytest
from bench_page import Bench, pass_first
from course_code import BUGS, FIRST, LABS, REFERENCES, in_terminal, with_feed

from labkit.course.lab import find_labs, pick_lab
from labkit.running.lab_impl import short_hash

# Verdicts


def test_the_reference_has_100_points_and_the_starter_what_it_has_in_a_terminal(bench, checkout):
    assert bench.grade(REFERENCES["03"]).startswith("100 of 100 points")
    assert bench.score == (100, 100)
    assert bench.failing == set()
    bench.grade(LABS["03"].pristine_starter.read_text("utf-8"))
    assert bench.score == (0, 100)
    assert_equals_terminal(bench, checkout, LABS["03"].pristine_starter.read_text("utf-8"))


@pytest.mark.parametrize("name", BUGS)
def test_a_known_bug_has_the_points_tests_and_diagnosis_of_a_terminal(bench, checkout, name):
    bench.grade(BUGS[name])
    bug = next(bug for bug in LABS["03"].bugs if bug.name == name)
    points = {test.name: test.points for test in LABS["03"].tests}
    lost = sum(points[test] for test in bug.killed_by)
    assert bench.score == (100 - lost, 100)
    assert_equals_terminal(bench, checkout, BUGS[name])


def assert_equals_terminal(bench, root, source):
    """Compare the whole report with that of `make lab`."""
    lab = pick_lab(find_labs(root), "03")
    lab.starter.write_text(source, "utf-8")
    shutil.rmtree(root / ".labkit", ignore_errors=True)
    printed = in_terminal(root, "lab", "--lab", "03", "--", "-q")
    assert short_hash(source.encode()) in printed
    assert told(bench.terminal) == told(printed)


def told(report):
    """Return the words of a report without the path of the file, pytest's dots, and where a limit
    hit, which is never the same.
    """
    lines = [line for line in report.splitlines() if not re.match(r"  file |[.F]+ +\[", line)]
    words = " ".join(" ".join(lines).split())
    return re.sub(r"(its time limit); it was at line .*?(\. Is there)", r"\1\2", words).split(". ")


@pytest.mark.parametrize("number", LABS)
def test_every_reference_has_all_points_that_a_browser_can_give(driver, url, number, is_student):
    if is_student:
        pass_first(driver, url, FIRST[number])
    bench = Bench(driver, url, number)
    bench.grade(REFERENCES[number])
    points, most = bench.score
    assert points == most
    assert bench.failing == set()
    # What is left to a checkout is named.
    assert bool(bench.texts("#bench .report details.more li")) == (most < 100)


# Code that misbehaves


MISBEHAVES = {
    "endless loop": ("while True: pass", ("did not end within its time limit",)),
    "endless loop that catches all": (
        "while True:\n            try:\n                while True: pass\n"
        "            except BaseException: pass",
        ("could not be interrupted",),
    ),
    "recursion without end": ("return self.feed(token_id)", ("RecursionError",)),
    "os._exit(0)": ("import os; os._exit(0)", ("Python ended during",)),
    "100 MB": ("return 'x' * 100_000_000", ("more than 100000 characters in all",)),
    "100 MB printed": ("print('x' * 100_000_000)", ("feed returned None",)),
}


@pytest.mark.parametrize("name", MISBEHAVES)
def test_what_misbehaves_gets_a_message_and_the_page_lives_on(bench, name):
    body, words = MISBEHAVES[name]
    source = with_feed(body)
    bench.grade(source)
    report = bench.text("#bench .report")
    assert any(word in report for word in words), report[:500]
    assert bench.code == source
    assert not report.startswith("Report100")
    bench.grade(REFERENCES["03"])
    assert bench.score == (100, 100)


def test_a_syntax_error_is_told_with_its_line_which_leads_to_the_editor(bench):
    bench.grade("x = 1\ndef f(:\n    pass\n")
    report = bench.text("#bench .report")
    assert "starter.py line 2 is not valid Python" in report
    assert bench.score[0] == 0


def test_while_a_run_loops_the_page_can_be_used_and_the_run_be_stopped(bench):
    bench.write(with_feed("while True: pass"))
    bench.js("$('#bench .report').append(Object.assign(document.createElement('i'), {id: 'old'}))")
    bench.click("Run")
    bench.until("$('#bench .report').ariaBusy === 'true'")
    bench.click("Stop")
    bench.until("$('#bench .report').ariaBusy !== 'true'")
    assert bench.text("#bench .status").startswith("Stopped")
    assert bench.js("return document.activeElement.textContent") == "Stop"
    bench.grade(REFERENCES["03"])
    assert bench.score == (100, 100)


def test_no_run_sees_what_another_one_left(bench):
    traces = (
        "\nimport builtins, json, sys, os\n"
        "class Seen(Exception): pass\n"
        "left = [hasattr(json, 'LEFT'), hasattr(builtins, 'LEFT'), 'left_here' in sys.modules,\n"
        "        hasattr(json.JSONDecoder, 'LEFT'), 'LEFT' in os.environ,\n"
        "        os.path.exists('/tmp/left')]\n"
        "if any(left): raise Seen(left)\n"
        "json.LEFT = builtins.LEFT = json.JSONDecoder.LEFT = True\n"
        "sys.modules['left_here'] = json; os.environ['LEFT'] = '1'\n"
        "builtins.len = lambda *_: 0\n"
        "open('/tmp/left', 'w').close()\n"
    )
    bench.write(REFERENCES["03"] + traces.replace("builtins.len = lambda *_: 0\n", ""))
    for _ in range(2):
        bench.run()
        assert bench.score == (100, 100)
    bench.grade(REFERENCES["03"] + traces)
    bench.grade(REFERENCES["03"])
    assert bench.score == (100, 100)
