"""The course in a browser, as its readers use it: in Chromium, on the built site.

`make site ARGS=--test` builds the site and runs this; elsewhere it is skipped. The tests of a class
run one after the other on one page, as a reader's tries do.
"""

import re
import shutil

import pytest
from bench_page import Bench, pass_first, serving
from course_code import (
    BUGS,
    FIRST,
    LABS,
    NOT_A_BYTE,
    REFERENCES,
    in_terminal,
    where_no_byte_is,
    with_feed,
)

from labkit.course.lab import find_labs, pick_lab
from labkit.running.lab_impl import short_hash

POINTS = {test.name: test.points for test in LABS["03"].tests}
# Quadratic code meets its limit sooner; it is the same in the report.
HURRY = ("-p", "labkit.gates.lab_runs.hurry", "--hurry", "0.2")


class TestVerdicts:
    def test_the_reference_has_100_points(self, bench):
        assert bench.grade(REFERENCES["03"]).startswith("100 of 100 points")
        assert bench.score == (100, 100)
        assert bench.failing == set()

    def test_the_starter_has_the_report_of_a_terminal(self, bench, checkout):
        bench.grade(LABS["03"].pristine_starter.read_text("utf-8"))
        assert bench.score == (0, 100)
        assert_equals_terminal(bench, checkout, LABS["03"].pristine_starter.read_text("utf-8"))

    @pytest.mark.parametrize("name", BUGS)
    def test_a_known_bug_has_the_points_tests_and_diagnosis_of_a_terminal(
        self, bench, checkout, name
    ):
        bench.grade(BUGS[name])
        bug = next(bug for bug in LABS["03"].bugs if bug.name == name)
        assert bench.score == (100 - sum(POINTS[test] for test in bug.killed_by), 100)
        assert_equals_terminal(bench, checkout, BUGS[name])


def assert_equals_terminal(bench, root, source):
    """Compare the whole report with that of `make lab`."""
    lab = pick_lab(find_labs(root), "03")
    lab.starter.write_text(source, "utf-8")
    shutil.rmtree(root / ".labkit", ignore_errors=True)
    printed = in_terminal(root, "lab", "--lab", "03", "--", "-q", *HURRY)
    assert short_hash(source.encode()) in printed
    assert told(bench.terminal) == told(printed)


def told(report):
    """Return the words of a report without the path of the file, pytest's dots, and the time and
    place at which a test was ended, which are never the same.
    """
    lines = [line for line in report.splitlines() if not re.match(r"  file |[.F]+ +\[", line)]
    words = " ".join(" ".join(lines).split())
    late = r"(did not end within its time limit|made [\d,]+ of ).*?(\. Is there)"
    return re.sub(late, r"is late\2", words).split(". ")


# Other tests run these: the one by keyboard, the one above, and the one of the pipeline.
ELSEWHERE = ("02", "03", "05")


@pytest.mark.parametrize("number", [number for number in LABS if number not in ELSEWHERE])
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


LOOP = where_no_byte_is("while True:\n    pass")
SWALLOW = where_no_byte_is(
    "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
)
MOST_SAID = 100_000
# What each is, and what is said of it.
MISBEHAVES = {
    "endless loop that catches all": (
        SWALLOW,
        f"The run was stopped: {NOT_A_BYTE} did not end and could not be interrupted. Is there an "
        "endless loop, or an `except` that catches everything, in starter.py?",
    ),
    "endless loop in C": (
        where_no_byte_is("import itertools; sum(itertools.count())"),
        f"The run was stopped: {NOT_A_BYTE} did not end and could not be interrupted.",
    ),
    "recursion without end": (with_feed("return self.feed(token_id)"), "RecursionError"),
    "os._exit(0)": (
        where_no_byte_is("import os; os._exit(0)"),
        f"The run was stopped: Python ended during {NOT_A_BYTE}, before the report. "
        "Is there a call of os._exit",
    ),
    "100 MB": (with_feed("return 'x' * 100_000_000"), "more than 100000 characters in all"),
    "100 MB printed": (where_no_byte_is("print('x' * 100_000_000)\nreturn 0"), NOT_A_BYTE),
    "70 kB": (REFERENCES["03"] + "#" * 70_000, "starter.py has"),
    "syntax error": ("x = 1\ndef f(:\n    pass\n", "starter.py line 2 is not valid Python"),
}


COUNT_RUNS = """
window.runs = 0;
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (data) {
  if (data.verb === "run") runs += 1;
  postMessage.call(this, data);
};
"""


class TestMisbehaviour:
    @pytest.mark.parametrize("name", MISBEHAVES)
    def test_what_misbehaves_gets_a_message_and_the_page_lives_on(self, bench, name):
        source, words = MISBEHAVES[name]
        bench.grade(source)
        report = bench.text("#bench .report")
        assert words in report[:MOST_SAID], report[:500]
        assert len(report) < MOST_SAID
        assert bench.code == source
        assert not report.startswith("Report100")

    def test_an_endless_loop_is_late_in_its_test_alone(self, bench):
        bench.grade(LOOP)
        assert bench.code == LOOP
        assert bench.failing == {NOT_A_BYTE}
        assert bench.score == (100 - POINTS[NOT_A_BYTE], 100)
        line = LOOP.splitlines().index("        while True:") + 1
        words = r"a call that did not end after 1.5 s of processor time; it was at line (\d+)"
        [said] = re.findall(words, bench.text("#bench .failure"))
        assert int(said) in (line, line + 1)

    def test_while_a_run_loops_the_page_can_be_used_and_the_run_be_stopped(self, bench):
        bench.write(with_feed("while True: pass"))
        bench.click("Run")
        bench.until("$('#bench .report').ariaBusy === 'true'")
        bench.click("Stop")
        bench.until("$('#bench .report').ariaBusy !== 'true'")
        assert bench.text("#bench .status").startswith("Stopped")
        assert bench.js("return document.activeElement.textContent") == "Stop"

    def test_run_pressed_again_at_once_is_one_run(self, bench):
        bench.write(REFERENCES["03"])
        bench.js(COUNT_RUNS)
        bench.js("for (let press = 0; press < 3; press++) $('#bench button.main').click()")
        bench.until("$('#bench .status').textContent.startsWith('100 of')")
        assert bench.js("return runs") == 1

    def test_no_run_sees_what_another_one_left(self, bench):
        traces = (
            "\nimport builtins, json, sys, os\n"
            "class Seen(Exception): pass\n"
            "left = [hasattr(json, 'LEFT'), hasattr(json.JSONDecoder, 'LEFT'),\n"
            "        hasattr(builtins, 'LEFT'), 'left_here' in sys.modules,\n"
            "        'LEFT' in os.environ, os.path.exists('/tmp/left')]\n"
            "if any(left): raise Seen(left)\n"
            "json.LEFT = builtins.LEFT = json.JSONDecoder.LEFT = True\n"
            "sys.modules['left_here'] = json; os.environ['LEFT'] = '1'\n"
            "open('/tmp/left', 'w').close()\n"
        )
        bench.grade(f"{REFERENCES['03']}{traces}builtins.len = lambda *_: 0\n")
        assert not bench.text("#bench .status").startswith("100 of")
        # It would raise if it saw something.
        bench.grade(REFERENCES["03"] + traces)
        assert bench.score == (100, 100)


# A fault of a worker, and how each worker then begins: with a snapshot, and whether it takes one.
FAULTS = {
    "taken": (
        "self.Blob = class { constructor() { throw new Error('no room'); } };",
        [[False, True], [False, False]],
    ),
    "loaded": (
        "Blob.prototype.arrayBuffer = async () => new ArrayBuffer(64);",
        [[False, True], [True, False], [False, False]],
    ),
}
WATCH_BOOTS = """
window.boots = [];
window.Worker = class extends Worker {
  postMessage(data) {
    if (data.boot) boots.push([Boolean(data.boot.snapshot), data.boot.takesSnapshot]);
    super.postMessage(data);
  }
};
"""


@pytest.mark.parametrize("name", FAULTS)
def test_without_a_snapshot_that_can_be_used_python_begins_as_a_whole(
    driver, folder, tmp_path, name
):
    fault, boots = FAULTS[name]
    (tmp_path / "bench").mkdir()
    for path in [*folder.iterdir(), *(folder / "bench").iterdir()]:
        if path.name not in ("bench", "worker.js"):
            (tmp_path / path.relative_to(folder)).symlink_to(path.resolve())
    worker = (folder / "bench" / "worker.js").read_text("utf-8")
    (tmp_path / "bench" / "worker.js").write_text(f"{fault}\n{worker}", "utf-8")
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_BOOTS})
    with serving(tmp_path) as server:
        bench = Bench(driver, server.url, "03")
        for _ in range(2):
            bench.grade(REFERENCES["03"])
            assert bench.score == (100, 100)
        assert bench.js("return boots")[: len(boots)] == boots
