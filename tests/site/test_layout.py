"""Code, text and report beside each other: what is in sight after a run, at each width."""

import pytest
from bench_page import AS_A_RUN_BEGINS, EDITOR, KEPT, Bench, Page
from course_code import REFERENCES

from labkit.course.lab import ROOT

SIZES = pytest.mark.parametrize(("width", "height"), [(1280, 900), (1440, 1000), (390, 844)])
MARKED = "$('#bench .editor').shadowRoot.querySelector('.cm-line[data-words]')"
LINE = '        int("x")\n'
RAISES = REFERENCES["03"].replace("        return", f"{LINE}        return", 1)
IN_SIGHT_AFTER = (
    ".cm-line[data-words]", "#bench .failure h4", "#bench button.main", "#bench .status",
)  # fmt: skip
# Whether the point in the middle of an element's first line shows it, or what is in it.
IN_SIGHT = """
const [find] = arguments;
const element = find.startsWith(".cm") ? document.querySelector("#bench .editor").shadowRoot
  .querySelector(find) : document.querySelector(find);
const { left, top, width, height } = element.getClientRects()[0];
const at = (root) => root.elementFromPoint(left + width / 2, top + Math.min(height / 2, 12));
const seen = at(element.getRootNode());
return seen !== null && element.contains(seen);
"""


def in_sight(page, selector):
    return page.js(IN_SIGHT, selector)


@SIZES
def test_a_lab_begins_with_its_text_and_run_in_sight_or_one_tap_away(
    driver, url, look, width, height
):
    look(width, height)
    page = Page(driver, f"{url}labs/10/")
    page.until("$('#bench button, .to-code')")
    if width < 1100:
        assert in_sight(page, ".to-code")
        page.js("$('.to-code').click()")
    page.until(f"$('#bench .editor') && {EDITOR}")
    assert in_sight(page, "#bench button.main")
    assert page.text("#bench button.main").startswith("Run")
    assert page.js("const e = document.documentElement; return e.scrollWidth <= e.clientWidth")
    page.until("document.activeElement === document.body || innerWidth < 1100")
    if width < 1100:
        page.js("[...document.querySelectorAll('#bench button')]"
                ".find((e) => e.textContent === 'Text only').click()")  # fmt: skip
    assert in_sight(page, "article p")


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_a_part_of_the_text_that_an_address_names_is_in_sight(driver, url, look, width, height):
    look(width, height)
    bench = Bench(driver, url, "03")
    bench.click("Report and hints")
    bench.js("location.hash = '#background'")
    bench.until(f"((...arguments) => {{{IN_SIGHT}}})('#background')")


@pytest.fixture(scope="class")
def failed(driver, url, look):
    """The bench of lab 03 on a phone, with the report of code that raises."""
    look(390, 844)
    bench = Bench(driver, url, "03")
    bench.grade(RAISES)
    return bench


class TestAfterARun:
    def test_a_phone_shows_the_marked_line_above_the_failure(self, failed):
        failed.until(MARKED)
        for selector in IN_SIGHT_AFTER:
            failed.until(f"((...arguments) => {{{IN_SIGHT}}})('{selector}')")

    def test_on_a_phone_the_views_are_beside_run(self, failed):
        views, run = (
            failed.js("const { top, bottom } = $(arguments[0]).getBoundingClientRect();"
                      " return (top + bottom) / 2", selector)
            for selector in ("#bench .views", "#bench button.main")
        )  # fmt: skip
        assert abs(views - run) < 3

    @SIZES
    def test_run_score_failure_and_the_marked_line_are_in_sight(self, failed, look, width, height):
        look(width, height)
        failed.run()
        failed.until(MARKED)
        for selector in IN_SIGHT_AFTER:
            failed.until(f"((...arguments) => {{{IN_SIGHT}}})('{selector}')")
        line, words = failed.js(
            f"const line = {MARKED};"
            "return [line.textContent, getComputedStyle(line, '::after').content]"
        )
        assert line == LINE.rstrip("\n")
        assert words == "\"ValueError: invalid literal for int() with base 10: 'x'\""
        assert failed.text("#bench .status").startswith("13 of 100 points")

    def test_a_new_report_begins_at_its_top_below_a_bar_that_hides_what_is_scrolled(self, failed):
        failed.js("$('#bench .side').scrollTop = 200")
        left = "const { left, top } = $('#bench .side .close').getBoundingClientRect();"
        assert failed.js(f"{left} return document.elementFromPoint(left + 5, top + 5)"
                         ".closest('.close') !== null")  # fmt: skip
        failed.run()
        assert failed.js("return $('#bench .side').scrollTop") == 0

    def test_at_400_percent_the_report_has_the_width_of_the_window(self, failed, look):
        look(320, 225)
        assert in_sight(failed, "#bench .report .score")
        assert failed.js("return $('#bench .side').clientWidth") > 300
        look(1280, 900)

    def test_the_marked_line_is_outlined_in_the_readers_own_colours(self, failed):
        outline = f"return getComputedStyle({MARKED}).outlineColor"
        assert failed.js(outline) == "rgba(0, 0, 0, 0)"
        features = [{"name": "forced-colors", "value": "active"}]
        failed.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        assert failed.js(outline) not in (
            "rgba(0, 0, 0, 0)",
            failed.js(outline.replace("outlineColor", "backgroundColor")),
        )

    def test_the_report_gives_the_text_its_place_back(self, failed, look):
        look(1280, 900)
        failed.click("Close")
        assert in_sight(failed, "article p")
        assert failed.js("return document.activeElement.textContent") == "Report and hints"
        failed.press(failed.keys.ENTER)
        assert in_sight(failed, "#bench .failure h4")

    def test_the_start_of_python_is_told_without_a_line_more(self, failed, look):
        look(1280, 900)
        height = "return $('#bench .telling').clientHeight"
        before = failed.js(height)
        failed.js("$('#bench .status').textContent = 'Importing pytest and the course …';"
                  "$('#bench .telling progress').hidden = false")  # fmt: skip
        assert failed.js(height) == before

    def test_the_last_report_is_there_after_a_reload(self, failed):
        failed.driver.refresh()
        failed.open()
        failed.until("$('#bench .status').textContent.startsWith('13 of 100 points')")
        assert failed.text("#bench .failure h4 code") == "test_utf8_expected_len_table"
        assert in_sight(failed, "article p"), "the text, until the report is wanted"

    def test_of_code_that_changed_during_a_run_no_line_is_marked(self, failed):
        types = f"{EDITOR}.focus(); document.execCommand('insertText', false, '#')"
        failed.js(AS_A_RUN_BEGINS.format(types))
        failed.run()
        assert failed.text("#bench .status").startswith("Before your last change: 13 of 100")
        assert failed.js(f"return {MARKED}") is None
        failed.press(failed.keys.CONTROL + "z")
        failed.until(KEPT)

    def test_the_landing_page_and_the_ladder_say_how_far_one_is(self, failed, url):
        failed.driver.get(url)
        failed.until("$('#start').textContent === 'Continue: lab 03, task 1'")
        # The browser may show an older page again.
        shown = "new PageTransitionEvent('pageshow', { persisted: true })"
        failed.js(f"$('#start').textContent = 'Start'; dispatchEvent({shown})")
        failed.until("$('#start').textContent === 'Continue: lab 03, task 1'")
        assert failed.js("return new URL($('#start').href).pathname") == "/labs/03/"
        assert failed.text(".md-nav a[href$='labs/03/'] .lab-points") == "13 (13 points)"
        assert failed.text(".md-nav a[href$='labs/02/'] .lab-points") == ""
        failed.driver.get(f"{url}phase-16/")
        failed.until("$('article td .lab-points')")
        assert failed.text("article td .lab-points") == "13 (13 points)"

    def test_a_pass_says_what_it_showed_and_what_is_next(self, failed, url):
        failed.driver.get(f"{url}labs/03/")
        failed.open()
        failed.until("$('#bench .status').textContent.startsWith('13 of 100 points')")
        failed.grade(REFERENCES["03"])
        assert failed.js(f"return {MARKED}") is None
        assert "Three silences, one rocket: " in failed.text("#bench .shown li:nth-child(3)")
        assert failed.text("#bench .next").startswith("Next: lab-04")
        assert failed.text(".md-nav--primary .lab-points") == "✓ (passed)"

    def test_who_types_over_a_marked_last_line_has_no_words_of_the_mark_in_the_code(
        self, failed, look
    ):
        look(1280, 900)
        failed.grade(REFERENCES["03"] + "def f(")
        failed.until(MARKED)
        failed.editor.click()
        failed.press(failed.keys.CONTROL + "a", "x")
        failed.until(KEPT)
        assert failed.code == "x"


def test_the_landing_page_begins_with_start_and_a_demo_that_one_can_type_into(driver, url, look):
    look(1280, 900)
    page = Page(driver, url)
    page.until("$('#demo .steps')")
    assert in_sight(page, "#start")
    assert page.js("return new URL($('#start').href).pathname") == "/labs/02/"
    assert page.js("const e = $('#demo .steps'); return e.scrollHeight <= e.clientHeight")
    box = driver.find_element("css selector", "#demo input")
    box.clear()
    box.send_keys("né")
    assert page.texts("#demo dd") == ["n\ufffd\ufffd", "né"]
    assert page.texts("#demo tbody tr td") == [
        "6E",
        "n",
        "n",
        "C3",
        "\ufffd",
        "",
        "A9",
        "\ufffd",
        "é",
    ]
    assert "make serve" not in page.text("article").split("For students")[0]


# Prints more than a page can hold, and is otherwise the code of somebody who has written task 1.
ATTEMPTS = ROOT / "tests/attempts/02"
WRITTEN = (ATTEMPTS / "after_task_1.py").read_text("utf-8")
LONG = "    def _(self): return 'a line that is wider than a phone, and than most other windows'\n"
# Of a line of the editor: how far its parts and its first letter are from the left.
LEFTS = """
const line = [...document.querySelector("#bench .editor").shadowRoot.querySelectorAll(".cm-line")]
  .find((e) => e.textContent.startsWith("    def _"));
const range = document.createRange();
range.selectNodeContents(line);
const lefts = [...range.getClientRects()].map(({ left }) => left);
const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode()); ) {
  const at = node.data.search(/\\S/);
  if (at < 0) continue;
  range.setStart(node, at);
  range.setEnd(node, at + 1);
  return [lefts, range.getBoundingClientRect().left];
}
"""


@pytest.fixture(scope="class")
def started(driver, url, look):
    """The bench of lab 02 with the report of code in which task 1 is written."""
    look(1280, 900)
    bench = Bench(driver, url, "02")
    bench.grade(WRITTEN.replace("return [256", "print('x' * 9_999)\n        return [256", 1) + LONG)
    return bench


class TestTaskByTask:
    def test_the_next_task_comes_before_the_failures_of_a_later_one(self, started):
        assert started.text("#bench .status") == "16 of 100 points. Task 2 is next."
        assert started.text("#bench .next").startswith("Next: write task 2")
        assert started.text("#bench .failure h4").endswith("(task 4, 8 points)")
        assert started.js("return $('#bench .failure').checkVisibility()") is False

    def test_of_what_a_test_printed_the_beginning_is_shown(self, started):
        printed = started.text("#bench .report details[open] pre")
        assert " more characters" in printed
        assert len(printed) < 2500 * printed.count("test_")

    def test_on_a_phone_a_line_goes_on_below_its_indentation_and_a_long_state_fits(
        self, started, look
    ):
        look(390, 844)
        lefts, first = started.js(LEFTS)
        assert len(lefts) > 2
        assert sum(left < first - 4 for left in lefts) == 1, "only the indentation itself"
        # As in lab 05.
        started.js("$('#bench .tasks .status').textContent = 'BLOCKED by task 1'")
        for size in ((640, 450), (390, 844)):
            look(*size)
            assert started.js("const e = $('#bench .tasks').parentElement;"
                              " return e.scrollWidth <= e.clientWidth")  # fmt: skip
        look(1280, 900)

    def test_buttons_in_the_text_run_its_tasks_and_show_its_hints(self, started):
        started.click("Close")
        started.js("[...document.querySelectorAll('article .in-text')]"
                   ".find((e) => e.textContent === 'Run task 1').click()")  # fmt: skip
        started.until("$('#bench .status').textContent === 'task 1: PASS.'")
        started.click("Close")
        started.js("[...document.querySelectorAll('article .in-text')]"
                   ".find((e) => e.textContent === 'Hints').click()")  # fmt: skip
        assert in_sight(started, "#bench .hints h4")
        commands = (
            "return [...document.querySelectorAll('article :is(blockquote, #stuck ~ p) code')]"
        )
        commands += ".filter((e) => /^make (lab|hint)/.test(e.textContent) && e.checkVisibility())"
        assert started.js(f"{commands}.map((e) => e.textContent)") == []
        assert "in the repository's root" not in started.text("article")


PLACES = ("", "phase-16/", "labs/12/", "mini-vllm/text/", "files/mini_vllm/text/stop.py/")
# What keeps its place while the text below the header scrolls.
FLOATING = """
const top = document.querySelector(".md-header").getBoundingClientRect().bottom;
return [...document.querySelectorAll("body *")].filter((e) => {
  const { left, right, bottom, height } = e.getBoundingClientRect();
  const isHere = height > 0 && bottom > top && right > 0 && left < innerWidth;
  const isFixed = getComputedStyle(e).position === "fixed";
  return isHere && isFixed && e.checkVisibility({ opacityProperty: true });
}).map((e) => e.className);
"""


class TestPages:
    """What is on a page fits where it is."""

    @pytest.mark.parametrize("lab", ["03", "05", "11"])
    def test_a_diagram_fits_beside_the_code(self, driver, url, look, lab):
        look(1280, 900)
        page = Page(driver, f"{url}labs/{lab}/")
        page.until("document.body.classList.contains('bench-open')")
        codes = ".highlight:not(:has(code [class])) pre > code"
        all_codes = f"return [...document.querySelectorAll('{codes}')]"
        cut = f"{all_codes}.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent)"
        assert page.js(cut) == []
        ink = [page.js(f"return getComputedStyle($('{where}')).color")
               for where in ("article > blockquote p", "article > p")]  # fmt: skip
        assert ink[0] == ink[1], "a task is no aside"

    @pytest.mark.parametrize("width", [1280, 640, 390])
    def test_no_page_is_wider_than_the_window(self, driver, url, look, width):
        look(width, 900)
        for place in PLACES:
            page = Page(driver, url + place)
            broken = page.js("return [...document.querySelectorAll('tr > * > code')].filter((e) =>"
                             " e.getClientRects().length > 1 && !/\\s/.test(e.textContent))"
                             ".map((e) => e.textContent)")  # fmt: skip
            assert broken == [], place
            wide = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
            assert page.js(wide) <= 0, place

    def test_nothing_floats_over_the_text_of_a_phone(self, driver, url, look):
        look(390, 844)
        page = Page(driver, f"{url}upstream/")
        page.until("$('.md-sidebar-button')?.checkVisibility()")
        # The generator shows some of its buttons once one scrolls back.
        for top in (1500, 1200):
            page.js("scrollTo({top: arguments[0], behavior: 'instant'})", top)
            page.until("new Promise((done) => setTimeout(() => done(true), 300))")
        assert page.js(FLOATING) == []
        page.js("$('.md-sidebar-button').click()")
        page.until(f"((...arguments) => {{{IN_SIGHT}}})('.md-sidebar--secondary li a')")
