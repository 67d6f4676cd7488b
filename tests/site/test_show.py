"""Show me: the steps of a failing case on a lab's page, and links to a step."""

import os
import random
from hashlib import sha256

import pytest
from bench_page import KEPT, Bench
from course_code import BUGS, FIRST, LABS, REFERENCES
from interpreter import LONG
from odd_values import HEAD, ODD
from test_everybody import SCHEMES, serious

from labkit.course.rows import edited

EVENT = "$('#bench .show .event')?.textContent"
OPENING = "Step 21 of 21, in feed: line 99 returns"
MARKED = "$('#bench .editor').shadowRoot.querySelector('.cm-step')?.textContent ?? ''"
# The controls over the report with their sizes, if a finger cannot press them.
CONTROLS = "#bench .side > .close button, #bench .show :is(button, input)"
SMALL = f"""[...document.querySelectorAll('{CONTROLS}')]
  .filter((one) => one.offsetParent).map((one) => [one, one.getBoundingClientRect()])
  .filter(([one, {{ x, y, width, height }}]) => width < 44 || height < 44
    || !one.contains(document.elementFromPoint(x + width / 2, y + height / 2)))
  .map(([one, {{ width, height }}]) => [one.textContent, width, height])"""
# The file of a step, whether the editor marks its line, whether Show me has the code, and the last
# line of that code.
STEP = (
    "(([title, code]) => [title.textContent.split(',')[0], "
    f"Boolean({MARKED}), code.offsetParent !== null, code.lastChild.lastChild.data.trim()])"
    "(['.title', '.code'].map((name) => $(`#bench .show .steps section ${name}`)))"
)
COLOURS = {"light": "default", "dark": "slate"}


@pytest.fixture(scope="class")
def shown(driver, url, look):
    """The bench of lab 03 on a phone, with the steps of a known bug."""
    look(390, 844)
    bench = Bench(driver, url, "03")
    bench.grade(BUGS["decode-alone"])
    bench.js("$('.show-me').click()")
    bench.until(EVENT)
    return bench


@pytest.fixture(scope="class")
def link(shown):
    """The link to the opening step, as it is copied."""
    shown.js("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    shown.click("Copy link")
    return shown.until("window.copied")


class TestSteps:
    def test_opens_at_the_fault_and_the_editor_marks_the_line(self, shown):
        assert shown.text("#bench .show .event").startswith(OPENING)
        assert "return broken + self._take_held()" in shown.js(f"return {MARKED}")
        assert shown.js("return $('#bench .show .steps section .code').offsetParent === null")
        assert shown.texts("#bench .show tbody tr.here td") == ["feed(0xF0)", "'�'", "16", "''"]

    def test_keys_and_the_slider_move_the_line(self, shown):
        shown.press(shown.keys.ARROW_LEFT)
        shown.until(f"{EVENT}.startsWith('Step 20 of 21, in _take_held: line ')")
        shown.press(shown.keys.ARROW_UP)
        shown.until(f"{EVENT}.includes('in feed: line 99 runs')")
        shown.js("$('#bench .show input').focus()")
        shown.press(shown.keys.HOME)
        shown.until(f"{EVENT}.startsWith('Step 1 of 21, in __init__: line 67 runs')")
        assert "self._held" in shown.js(f"return {MARKED}")
        shown.js("$('#bench .show [data-key=o]').click()")
        shown.until(f"{EVENT}.startsWith('{OPENING}')")

    def test_a_finger_can_press_everything_on_a_phone(self, shown, look):
        """Each control is 44 pixels high and wide, and none is covered or beside the window."""
        look(390, 844)
        shown.js("$('#bench .show .moves').scrollIntoView({block: 'center'})")
        assert shown.js(f"return {SMALL}") == []
        line = "$('#bench .editor').shadowRoot.querySelector('.cm-step').getBoundingClientRect()"
        shown.until(f"{line}.bottom < $('#bench .side').getBoundingClientRect().top")

    @SCHEMES
    def test_axe_reports_nothing_serious_on_a_phone(self, shown, look, scheme):
        look(390, 844, scheme)
        shown.js("document.body.dataset.mdColorScheme = arguments[0]", COLOURS[scheme])
        shown.until("document.getAnimations().every((one) => one.playState !== 'running')")
        assert serious(shown.driver) == []
        assert shown.js("const e = document.documentElement; return e.scrollWidth <= e.clientWidth")

    def test_a_link_shows_the_code_runs_nothing_and_replaces_nothing(self, shown, link, url, look):
        look(390, 844)
        shown.write(REFERENCES["03"])
        shown.driver.get("about:blank")
        shown.driver.get(link)
        shown.until("$('#bench .show .code .here')")
        assert "return broken" in shown.text("#bench .show .code .here")
        assert shown.js("return $('#bench .show .code').isContentEditable") is False
        ran = "performance.getEntriesByType('resource').some(({name}) => /pyodide/.test(name))"
        assert shown.js(f"return {ran}") is False
        shown.click("Run this code")
        shown.until(f"{EVENT}?.startsWith('{OPENING}')")
        assert shown.js(f"return {MARKED}") == ""
        assert shown.js(f"return {KEPT}")
        assert shown.code == REFERENCES["03"]
        shown.click("Back to the report")
        assert "10 of 100 points" in shown.text("#bench .status")

    def test_a_damaged_link_and_one_of_another_lab_are_told(self, shown, link, url):
        shown.driver.get("about:blank")
        shown.driver.get(link[:-40])
        shown.until("/link to a step is damaged/.test($('#bench .notices')?.textContent)")
        shown.driver.get("about:blank")
        shown.driver.get(link.replace("/labs/03/", "/labs/04/"))
        shown.until("/belongs to lab 03/.test($('#bench .notices')?.textContent)")

    def test_code_that_is_too_long_for_a_link_is_told_so(self, shown, url):
        shown.driver.get(f"{url}labs/03/")
        shown.open()
        noise = "".join(f"# {sha256(bytes([n])).hexdigest()}\n" for n in range(256)) * 2
        shown.grade(f"{BUGS['decode-alone']}\n{noise}")
        shown.js("$('.show-me').click()")
        shown.until(EVENT)
        shown.click("Copy link")
        shown.until("/too long for a link: it would have/.test($('#bench .show').textContent)")


class TestOwnParts:
    def test_steps_of_earlier_labs_show_their_own_code_and_mark_no_line(self, driver, url, look):
        """Lab 05 composes the reader's labs 03, 04 and 01, whose lines are steps too."""
        look(1440, 900)
        for number in FIRST["05"]:
            earlier = Bench(driver, url, number)
            earlier.grade(f"{REFERENCES[number]}\n# mine, lab {number}\n")
            assert earlier.score == (100, 100)
        bench = Bench(driver, url, "05")
        bug = next(bug for bug in LABS["05"].bugs if bug.name == "flushed-apart")
        bench.grade(edited(REFERENCES["05"], bug.find, bug.replace, bug.name))
        bench.js("$('.show-me').click()")
        bench.until(EVENT)
        steps = set()
        bench.js("$('#bench .show input').value = 0")
        bench.js("$('#bench .show input').dispatchEvent(new Event('input'))")
        for _ in range(60):
            bench.js("$('#bench .show [data-key=ArrowDown]').click()")
            steps.add(tuple(bench.js(f"return {STEP}")))
            if len(steps) > len(FIRST["05"]) and not bench.js(f"return {STEP}")[1]:
                break
        last = REFERENCES["05"].splitlines()[-1].strip()
        assert steps == {("starter.py", True, False, last)} | {
            (f"{LABS[number].name}/starter.py", False, True, f"# mine, lab {number}")
            for number in FIRST["05"]
        }
        bench.click("Copy link")
        bench.until("/in the code of an earlier lab/.test($('#bench .show .note').textContent)")


@LONG
def test_random_programs_are_recorded_in_a_browser(python):
    """Programs with odd values are recorded as in a terminal: nothing breaks, and each one ends."""
    draw = random.Random(1)
    # Freeing such a list ends the interpreter, with a recorder and without.
    values = [text for kind, text in ODD.items() if kind != "deep list"]
    for _ in range(200 if os.environ.get("SOAK") else 4):
        body = "\n    ".join(draw.choices(values, k=draw.randint(1, 4)))
        source = HEAD.replace("run(seed)", "utf8_expected_len(first_byte)")
        source += f"    x = None\n    {body}\n    return -1\n"
        asked = {"lab": "03", "test": "test_utf8_expected_len_table", "progress": {}}
        # A page has a fresh interpreter for each recording.
        answer = python.ask("show", {**asked, "files": {"03": source}}, fresh=True)
        assert "result" in answer, (body, answer)
        recording = answer["result"]
        assert recording["kind"] in ("difference", "exception"), (body, recording)
        assert recording["opens"] < len(recording["steps"]) <= 5_000
        assert recording["source"] == source.splitlines()


def test_the_tests_of_lab_10_with_threads_say_that_they_need_a_checkout(driver, url, look):
    """Threads do not run in a browser, so there is nothing to show of these tests there."""
    look(1280, 900)
    bench = Bench(driver, url, "10")
    bench.grade(REFERENCES["10"])
    assert "4 tests run only in a checkout" in bench.text("#bench .report")
    assert "test_two_threads_at_once" in bench.text("#bench .report")
