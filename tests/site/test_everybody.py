"""The site for everybody, in Chromium: by keyboard, read aloud, on a phone, in the dark."""

import json
import re
from urllib.parse import urlsplit

import pytest
from bench_page import EDITOR, Bench, Page, StripOf, focus
from course_code import BUGS, REFERENCES

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
    bench.until("$('#bench .notices').textContent === 'Your code is back.'")
    assert bench.js("return document.activeElement.className") == "notices"


# Python does not come while the page is `down`.
NO_PYTHON = """
const real = fetch;
window.down = true;
window.fetch = (url, ...more) => window.down && String(url).endsWith(".wasm")
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
PAGES = ["", "phase-16/", "labs/03/", "labs/05/", "upstream/"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_reports_nothing_serious(driver, url, look, page, scheme):
    look(scheme=scheme)
    if page.startswith("labs/"):
        bench = Bench(driver, url, page.split("/")[1])
        bench.run()
        if page == "labs/05/":
            StripOf(bench).play()
        driver.execute_script("scrollTo(0, 0)")
    else:
        driver.get(url + page)
    driver.execute_script((ROOT / "site/node_modules/axe-core/axe.min.js").read_text("utf-8"))
    found = [
        f"{one['id']}: {node['html'][:120]}: {node['failureSummary'][:200]}"
        for one in driver.execute_async_script(AXE)
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
    assert found == []


def test_on_a_phone_the_text_is_readable_and_the_bench_usable(driver, url, look):
    look(390, 844)
    bench = Bench(driver, url, "03")
    bench.grade(BUGS["decode-alone"])
    StripOf(bench).play()
    assert bench.js("const e = document.documentElement; return e.scrollWidth <= e.clientWidth")
    for selector in ("#bench button.main", "#bench .editor", "#bench .score"):
        box = bench.js(f"return $('{selector}').getBoundingClientRect().toJSON()")
        assert box["width"] > 40
        assert box["left"] >= 0
        assert box["right"] <= 390
    size = bench.js("return getComputedStyle($('article p')).fontSize")
    assert float(size.removesuffix("px")) >= 14


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_are_the_systems_until_the_reader_wants_others(driver, url, look, scheme):
    other = "dark" if scheme == "light" else "light"
    for system in (other, scheme):
        look(scheme=system)
        bench = Bench(driver, url, "03")
        StripOf(bench)
        assert brightness(bench) == {system}
    # The button is drawn as the label of a switch: dark, light, and as the system has it.
    for wanted in ("dark", "light", scheme):
        bench.js("[...document.querySelectorAll('label.md-header__button')].find((e) => !e.hidden"
                 " && e.htmlFor.startsWith('__palette')).click()")  # fmt: skip
        assert brightness(bench) == {wanted}


def brightness(bench):
    """Return whether the grounds of page, editor and strip are light or dark, or both."""
    card = "$('#strip').shadowRoot.querySelector('.card')"
    found = set()
    for element in ("document.body", f"{EDITOR}.closest('.cm-editor')", card):
        color = bench.js(f"return getComputedStyle({element}).backgroundColor")
        found.add("light" if sum(map(float, re.findall(r"[\d.]+", color)[:3])) > 384 else "dark")
    return found


def test_no_request_leaves_the_origin_and_no_page_complains(driver, url):
    driver.get(url)
    bench = Bench(driver, url, "03")
    bench.grade(REFERENCES["03"])
    StripOf(bench).play()
    driver.get(url + "upstream/")
    sent = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = [
        message["params"]["request"]["url"]
        for message in sent
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert len(urls) > 20
    hosts = {urlsplit(one).netloc for one in urls if not one.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(url).netloc}
    complaints = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert complaints == []
