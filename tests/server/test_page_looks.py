"""How the page looks, and to whom: it can be read, walked by keyboard, and named aloud."""

import os
import struct
from pathlib import Path

import pytest
from page_stub import ANSWERS, GREETING, Page

PAGE = Path(__file__).parents[2] / "mini_vllm/server/page"
CONTROLS = "button, input, select, textarea, .scroll"
UNTIL_THE_ROCKET = ANSWERS[GREETING].encode().index("🚀".encode())


def test_the_keyboard_reaches_everything(page):
    page["use-tools"].click()
    page["saying"].click()
    wanted = page.js(
        "const all = document.querySelectorAll(arguments[0]);"
        "all.forEach((e, i) => e.dataset.walk = i); return all.length",
        f"{CONTROLS}, summary",
    )
    page.js("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    page.driver.find_element("tag name", "h1").click()
    seen = []
    for _ in range(wanted):
        page.press(page.keys.TAB)
        at = "const e = document.activeElement, s = getComputedStyle(e);"
        seen.append(page.js(at + "return Number(e.dataset.walk)"))
        assert page.js(at + "return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2")
    assert seen == list(range(wanted))


def test_everything_has_a_name(page):
    page["use-tools"].click()
    page["saying"].click()
    assert page.js("return [...document.querySelectorAll('label')].every((e) => e.control)")
    for element in page.driver.find_elements("css selector", CONTROLS):
        assert element.accessible_name, element.get_attribute("outerHTML")


CONTRAST = """
const channels = (color) => color.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const ground = (e) => {
  const color = channels(getComputedStyle(e).backgroundColor);
  return color.length === 3 || color[3] === 1 ? color : ground(e.parentElement);
};
const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const worst = {};
while (words.nextNode()) {
  const e = words.currentNode.parentElement;
  if (!words.currentNode.data.trim() || !e.checkVisibility() || e.tagName === "OPTION") continue;
  const [a, b] = [light(channels(getComputedStyle(e).color)), light(ground(e))];
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) worst[e.outerHTML.slice(0, 80)] = ratio;
}
return worst;
"""


@pytest.fixture
def look(driver):
    """Set the width and the colour scheme of the window."""

    def look(width, height=1000, scheme="light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    yield look
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [400, 1200])
def test_can_be_read(driver, scripted, look, width):
    look(width)
    page = Page(driver, scripted.url)
    assert page.js("return $('settings').open") == (width > 900)
    page.js("$('settings').open = true")
    page.fill("stop", "\\n\\n\\nEND")
    page.paused_at(GREETING, UNTIL_THE_ROCKET + 2, tools=True)
    assert page.held("tokens") == "f0 9f"
    page.js("return $('alert').textContent = 'An error'")
    grounds = set()

    def check():
        for scheme in ("light", "dark"):
            look(width, scheme=scheme)
            grounds.add(page.js("return getComputedStyle(document.body).backgroundColor"))
            assert page.js("return document.documentElement.scrollWidth") == width
            assert page.js(CONTRAST) == {}

    check()
    page.press(page.keys.F8)
    page.end()
    check()
    assert len(grounds) == 2


# Where things are, at each token; the panels come first.
PLACES = """
const what = ".answer, .layers, .timeline, #seek, #held th, #held td, #timeline th";
const seek = $("seek"), seen = new Set();
for (let token = 0; token <= seek.max; token++) {
  seek.value = token;
  seek.dispatchEvent(new Event("input"));
  const boxes = [...document.querySelectorAll(what)].map((e) => e.getBoundingClientRect());
  const places = boxes.map(({ left, top, right, bottom }) => [left, top, right, bottom]);
  seen.add(JSON.stringify(places));
}
return [...seen].map(JSON.parse);
"""


@pytest.mark.parametrize("layers", ["scripted", "labs"])
def test_answer_held_and_tokens_are_seen_together_and_stay_where_they_are(
    driver, request, look, layers
):
    look(390)
    page = Page(driver, request.getfixturevalue(layers).url)
    page.js("$('settings').open = true")
    page.fill("stop", "END")
    assert page.ask(GREETING, tools=True) == "Finished"
    for width, height in ((390, 844), (1280, 900)):
        look(width, height)
        (places,) = page.js(PLACES)
        for left, top, right, bottom in places[:3]:
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
        assert page.js("return document.documentElement.scrollWidth") == width


def test_screenshot(driver, scripted, look, tmp_path):
    """`PAGE_SCREENSHOT=1` renews the one in the README."""
    renewed = os.environ.get("PAGE_SCREENSHOT")
    path = (PAGE if renewed else tmp_path) / "screenshot.png"
    look(1200, 900)
    page = Page(driver, scripted.url)
    page.pace(60)
    page.fill("stop", "END")
    page.paused_at(GREETING, UNTIL_THE_ROCKET + 3, tools=True)
    page.js("document.activeElement.blur()")
    driver.save_screenshot(str(path))
    data = path.read_bytes()
    assert struct.unpack(">I", data[16:20]) == (1200,)
    assert len(data) <= 200_000
