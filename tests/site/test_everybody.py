"""The site for everybody, in Chromium: by keyboard, read aloud, on a phone, in the dark."""

import json
import re
from urllib.parse import urlsplit

import pytest
from bench_page import EDITOR, Bench, Page, StripOf, focus, pass_first
from course_code import BUGS, FIRST, REFERENCES

from labkit.course.lab import ROOT

# Of the element with the focus, `at`.
IN_EDITOR = "at.classList.contains('cm-content')"
OUTSIDE_EDITOR = "at.closest('#bench .desk')"


def test_from_the_landing_page_to_100_points_in_lab_02_by_keyboard(driver, url):
    page = Page(driver, url)
    keys = page.keys
    page.tab_to("at.tagName === 'A' && at.pathname.endsWith('/labs/02/')")
    page.press(keys.ENTER)
    page.until("location.pathname.endsWith('/labs/02/') && $('#bench')")
    # The editor takes the place of the button, and its focus, as soon as it is loaded.
    page.tab_to(f"{IN_EDITOR} || at.closest('#bench') && at.textContent === 'Open the editor'")
    page.until(focus(IN_EDITOR))
    page.press(keys.CONTROL + "a")
    driver.execute_cdp_cmd("Input.insertText", {"text": REFERENCES["02"]})
    page.press(keys.CONTROL + keys.ENTER)
    page.until("$('#bench .status').textContent.startsWith('100 of 100 points')")
    # Escape, then Tab, leaves the editor.
    page.press(keys.ESCAPE, keys.TAB)
    assert page.js(f"return {focus(OUTSIDE_EDITOR)}")


# The first file that the bench reads comes by `go`, or not, by `fail`.
HOLD_BACK = """
const real = fetch;
window.fetch = (url, ...more) => !String(url).endsWith("/labs.json") ? real(url, ...more)
  : new Promise((come, fail) => Object.assign(window, {fail, go: () => come(real(url))}));
"""


def test_the_focus_is_not_lost_while_the_editor_loads(driver, url):
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HOLD_BACK})
    page = Page(driver, f"{url}labs/02/")
    page.until("$('#bench button')")
    page.js("$('#bench').scrollIntoView()")
    page.until("'go' in window")
    page.js("$('#bench button').focus(); fail(new Error('no connection')); delete window.go")
    page.until(focus("at.closest('#bench [role=alert]')"))
    # Again, and the focus comes to the button only after that.
    page.js("const at = document.activeElement; at.blur(); at.click(); at.focus()")
    page.until("'go' in window")
    page.js("go()")
    page.until(focus(IN_EDITOR))


def test_a_button_that_goes_leaves_the_focus_in_its_place(bench):
    bench.click("Reset")
    bench.until("$('#bench .notices button')")
    bench.click("Undo")
    bench.until("$('#bench .notices').textContent === 'Your code is restored.'")
    assert bench.js("return document.activeElement.className") == "notices"


# Python does not come while the page is `down`.
NO_PYTHON = """
const real = fetch;
window.down = true;
window.fetch = (url, ...more) => window.down && String(url).endsWith(".wasm.packed")
  ? Promise.reject(new Error("no connection")) : real(url, ...more);
"""


def test_python_that_did_not_come_is_tried_again_and_the_focus_kept(driver, url):
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NO_PYTHON})
    bench = Bench(driver, url, "03")
    bench.write("x = 1\n")
    bench.until("$('#bench .report [role=alert]')")
    assert "could not be loaded (no connection). Your code" in bench.text("#bench .report")
    bench.js("down = false; $('#bench .report button').focus()")
    bench.press(bench.keys.ENTER)
    bench.until("$('#bench .status').textContent === 'Python is ready.'")
    assert bench.js("return $('#bench .report').hidden")
    assert bench.js("return document.activeElement.matches('.status')")


AXE = "const done = arguments[0]; axe.run(document).then((found) => done(found.violations))"
# One of each kind: the landing page, the ladder, the reading map, a guide, a file.
PAGES = ["", "phase-16/", "upstream/", "phase-16/guide/glossary/", "files/mini_vllm/text/stop.py/"]
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


@SCHEMES
@pytest.mark.parametrize("page", PAGES)
def test_axe_reports_nothing_serious(driver, url, look, page, scheme):
    # With the navigation beside the text, and on a phone.
    for width in (1280, 390):
        look(width, scheme=scheme)
        driver.get(url + page)
        assert serious(driver) == [], width


def test_the_search_opens_by_its_key(driver, url):
    page = Page(driver, url)
    page.press(page.keys.CONTROL + "k")
    page.until(
        "[...document.body.children].some((e) => e.shadowRoot?.querySelector('dialog')?.open)"
    )


@SCHEMES
@pytest.mark.parametrize("page", ["", "labs/02/"])
def test_axe_reports_nothing_serious_in_print_and_code_is_left_out(driver, url, look, page, scheme):
    look(scheme=scheme)
    shown = Page(driver, url + page)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    assert serious(driver) == []
    for left_out in ("#bench", "#strip", ".code-dock", ".in-text"):
        assert shown.js(f"return $('{left_out}')?.checkVisibility() ?? false") is False, left_out


def serious(driver):
    """Return what axe reports of the page as it is now."""
    driver.execute_script("scrollTo(0, 0)")
    driver.execute_script((ROOT / "site/node_modules/axe-core/axe.min.js").read_text("utf-8"))
    return [
        f"{one['id']}: {node['html'][:120]}: {node['failureSummary'][:200]}"
        for one in driver.execute_async_script(AXE)
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def seen_in(bench, look, scheme):
    """Show a bench that is used already in a colour scheme, all of it."""
    look(scheme=scheme)
    if brightness(bench) != {scheme}:
        switch_colours(bench)
    # Colours that are on their way to others are neither.
    bench.until("document.getAnimations().every((one) => one.playState !== 'running')")
    assert brightness(bench) == {scheme}


# More lines than are shown at once.
PRINTS = "print('line\\n' * 40)\n"


@pytest.fixture(scope="class")
def used(driver, url, look):
    """The bench of lab 03 with the report of a bug, and a strip that has played."""
    look(390, 844)
    bench = Bench(driver, url, "03")
    bench.grade(BUGS["decode-alone"] + PRINTS)
    StripOf(bench).play()
    return bench


class TestABugOnAPhone:
    def test_the_text_is_readable_and_the_bench_usable(self, used, look):
        look(390, 844)
        narrow = "const e = document.documentElement; return e.scrollWidth <= e.clientWidth"
        assert used.js(narrow)
        size = used.js("return getComputedStyle($('article p')).fontSize")
        assert float(size.removesuffix("px")) >= 14
        used.open()
        assert used.js(narrow)
        for selector in ("#bench button.main", "#bench .editor", "#bench .status"):
            box = used.js(f"return $('{selector}').getBoundingClientRect().toJSON()")
            assert box["width"] > 40
            assert box["left"] >= 0
            assert box["right"] <= 390

    @SCHEMES
    def test_axe_reports_nothing_serious_on_a_wide_window(self, used, look, scheme):
        # Hints, questions and what else is folded.
        used.js("for (const one of document.querySelectorAll('#bench details')) one.open = true")
        seen_in(used, look, scheme)
        assert serious(used.driver) == []

    def test_no_request_leaves_the_origin_and_no_page_complains(self, used, url):
        used.driver.get(url)
        used.driver.get(url + "upstream/")
        log = used.driver.get_log("performance")
        sent = [json.loads(entry["message"])["message"] for entry in log]
        urls = [
            message["params"]["request"]["url"]
            for message in sent
            if message["method"] == "Network.requestWillBeSent"
        ]
        assert len(urls) > 20
        assert f"{url}bench/labs.json" in urls
        hosts = {urlsplit(one).netloc for one in urls if not one.startswith(("data:", "blob:"))}
        assert hosts == {urlsplit(url).netloc}
        complaints = [one for one in used.driver.get_log("browser") if one["level"] == "SEVERE"]
        assert complaints == []


def test_axe_reports_nothing_serious_on_a_hunt_whose_tests_print(driver, url):
    bench = Bench(driver, url, "12")
    bench.grade(f"def test_lab03_void(make):\n    {PRINTS}    assert False\n")
    bench.js("for (const one of document.querySelectorAll('#bench details')) one.open = true")
    assert "line" in bench.texts("#bench .failure dd.code")[0]
    assert serious(driver) == []


@pytest.fixture(scope="class")
def pipeline(driver, url, is_student):
    """The bench of lab 05."""
    if is_student:
        pass_first(driver, url, FIRST["05"])
    return Bench(driver, url, "05")


@pytest.fixture(scope="class")
def fresh(pipeline):
    """The bench with the report of the starter, and a strip that has played."""
    pipeline.run()
    StripOf(pipeline).play()
    return pipeline


class TestThePipeline:
    @SCHEMES
    def test_axe_reports_nothing_serious_on_what_is_still_to_do(self, fresh, look, scheme):
        seen_in(fresh, look, scheme)
        assert serious(fresh.driver) == []

    def test_it_has_100_points_and_the_panels_of_the_servers_page(self, pipeline):
        pipeline.grade(REFERENCES["05"])
        assert pipeline.score == (100, 100)
        strip = StripOf(pipeline)
        strip.play()
        assert strip.js("return $('answer').innerText").startswith("Grüße 🚀")
        assert strip.js("return $('answer').querySelector('.name').textContent") == "get_weather"
        assert strip.js("return $('finish').textContent") == "tool_calls"
        layers = strip.js("return [...$('held').tBodies[0].rows].map((row) => row.dataset.layer)")
        assert layers == ["tokens", "stops", "calls"]
        assert "END" not in strip.js("return $('answer').textContent")
        assert serious(pipeline.driver) == []


@SCHEMES
def test_the_colours_are_the_systems_until_the_reader_wants_others(driver, url, look, scheme):
    other = "dark" if scheme == "light" else "light"
    for system in (other, scheme):
        look(scheme=system)
        bench = Bench(driver, url, "03")
        StripOf(bench)
        assert brightness(bench) == {system}
    # The button is drawn as the label of a switch: dark, light, and as the system has it.
    for wanted in ("dark", "light", scheme):
        switch_colours(bench)
        assert brightness(bench) == {wanted}


def switch_colours(bench):
    """Press the button for other colours; it is drawn as the label of a switch."""
    bench.js("[...document.querySelectorAll('label.md-header__button')].find((e) => !e.hidden"
             " && e.htmlFor.startsWith('__palette')).click()")  # fmt: skip


def brightness(bench):
    """Return whether the grounds of page, editor and strip are light or dark, or both."""
    card = "$('#strip').shadowRoot.querySelector('.card')"
    found = set()
    for element in ("document.body", f"{EDITOR}.closest('.cm-editor')", card):
        color = bench.js(f"return getComputedStyle({element}).backgroundColor")
        found.add("light" if sum(map(float, re.findall(r"[\d.]+", color)[:3])) > 384 else "dark")
    return found
