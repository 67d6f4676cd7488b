"""No key is lost, whatever a reader does right after it: random edits, reloads, links, other tabs,
and the death of tabs, of Python, and of the service worker, at random moments.

`make site ARGS=--test` takes some steps, and `make soak`, with the site's folder in `SITE`, 300.
"""

import os
import random
import time

import pytest
from bench_page import EDITOR, KEPT, SECONDS, Bench
from selenium.common.exceptions import WebDriverException

STEPS = 300 if os.environ.get("SOAK") else 24
SEED = int(os.environ.get("SEED", "1"))
LABS = ("02", "03")
MOST_TABS = 3
# A page saves within this time, or not at all.
MOST_MS = 150
TEXT = f"[...{EDITOR}.querySelectorAll('.cm-line')].map((line) => line.textContent).join('\\n')"
ASKS = "$('#bench .notices').textContent.includes('Which version do you keep?')"
# Remembers the page's workers, so that they can be ended as if the system had done it.
WORKERS = """
window.workers = [];
window.Worker = class extends Worker {
  constructor(...options) { super(...options); workers.push(this); }
};
"""
TYPE = f"""
const [words, at, erase] = arguments;
const lines = [...{EDITOR}.querySelectorAll('.cm-line')];
const line = lines[Math.floor(at * lines.length)];
{EDITOR}.focus();
getSelection().selectAllChildren(line);
getSelection().collapseToEnd();
document.execCommand('insertText', false, words);
if (erase) document.execCommand('delete');
return {TEXT};
"""


class Reader:
    """Types, and leaves in a random way at a random moment."""

    def __init__(self, driver, url, seed):
        self.driver = driver
        self.url = url
        self.random = random.Random(seed)
        self.history = []
        # Of each lab, the text that a screen showed last.
        self.shown = {}
        self.home = driver.current_window_handle
        self.tabs = {}
        self.count = 0
        # Matches words that may be kept or not, as the tab died while they were typed.
        self.unsure = "(?!)"
        for number in LABS:
            self.open_tab(number)
            self.bench.write(f"lab = {number[1]}\n\n")
            self.shown[number] = self.bench.js(f"return {TEXT}")

    @property
    def bench(self):
        return self.tabs[self.driver.current_window_handle]

    def open_tab(self, number):
        self.driver.switch_to.new_window("tab")
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WORKERS})
        self.tabs[self.driver.current_window_handle] = Bench(self.driver, self.url, number)

    def step(self):
        self.history.append(name := self.random.choice(("reload", "link", "close", "crash", "tab",
            "both", "python", "service_worker", "stay")))  # fmt: skip
        if name not in ("tab", "both"):
            self.type()
        try:
            getattr(self, name)()
        except WebDriverException as error:
            # Chromium itself may end a tab while it changes its page.
            if "tab crashed" not in str(error):
                raise
            self.history.append("crashed")
            if f"#{self.count}" not in self.shown[self.bench.lab]:
                self.unsure = f"#{self.count}#?"
            self.bury(self.bench.lab)
            self.unsure = "(?!)"

    def words(self):
        self.count += 1
        return f"#{self.count}#"

    def type(self):
        """Type some words; some are erased again, and some are waited for."""
        for _ in range(self.random.choice((1, 1, 1, 3))):
            text = self.bench.js(TYPE, self.words(), self.random.random(),
                                 self.random.random() < 0.2)  # fmt: skip
            self.shown[self.bench.lab] = text
        if self.random.random() < 0.2:
            self.bench.until(KEPT)

    def moment(self):
        return self.random.choice((0, 0, self.random.randrange(MOST_MS)))

    def stay(self):
        self.check()

    def reload(self):
        self.leave("location.reload()", self.bench.lab)

    def link(self):
        other = next(number for number in LABS if number != self.bench.lab)
        self.leave(f"document.querySelector('a[href$=\"../{other}/\"]').click()", other)

    def leave(self, how, number):
        """Type once more, and leave for the page of a lab."""
        self.shown[self.bench.lab] = self.bench.js(
            f"const all = arguments; window.left = true;"
            f"const text = (function () {{ {TYPE} }})(...all);"
            f"const leave = () => {{ {how} }};"
            "all[3] ? setTimeout(leave, all[3]) : leave(); return text",
            self.words(), self.random.random(), False, self.moment(),
        )  # fmt: skip
        self.bench.lab = number
        self.bench.until("!window.left && document.readyState === 'complete'")
        self.bench.open()
        self.check()

    def close(self):
        """Close the tab by the devtools, from another one."""
        gone = self.driver.current_window_handle
        number = self.tabs.pop(gone).lab
        self.driver.switch_to.window(self.home)
        self.driver.execute_cdp_cmd("Target.closeTarget", {"targetId": gone})
        self.arrive(number)

    def crash(self):
        """Kill the process of the tab, which may be that of other tabs as well.

        What Chromium's storage has not heard of when the process dies is lost, so this waits until
        the page says that it is kept.
        """
        self.bench.until(KEPT)
        with pytest.raises(WebDriverException):
            self.driver.execute_cdp_cmd("Page.crash", {})
        self.bury(self.bench.lab)

    def bury(self, number):
        """Close the tabs whose process is gone, and go to a lab."""
        gone = []
        for tab in self.tabs:
            self.driver.switch_to.window(tab)
            try:
                self.bench.js("return 0")
            except WebDriverException:
                gone.append(tab)
        self.driver.switch_to.window(self.home)
        for tab in gone:
            del self.tabs[tab]
            self.driver.execute_cdp_cmd("Target.closeTarget", {"targetId": tab})
        self.arrive(number)

    def arrive(self, number):
        """Go to a tab of a lab, an old or a new one."""
        old = [tab for tab, bench in self.tabs.items() if bench.lab == number]
        if old and (len(self.tabs) >= MOST_TABS or self.random.random() < 0.5):
            self.driver.switch_to.window(self.random.choice(old))
        else:
            self.open_tab(number)
        self.check()

    def tab(self):
        """Type, and go to another tab of the same lab."""
        self.type()
        self.arrive(self.bench.lab)

    def both(self):
        """Type in two tabs of a lab at about the same time."""
        number, first = self.bench.lab, self.driver.current_window_handle
        twins = [tab for tab, bench in self.tabs.items() if bench.lab == number and tab != first]
        if not twins:
            self.open_tab(number)
            self.check()
            twins = [self.driver.current_window_handle]
            self.driver.switch_to.window(first)
        mine, theirs = self.words(), self.words()
        self.bench.js(
            f"const all = arguments; setTimeout(() => (function () {{ {TYPE} }})(...all), all[3])",
            mine, 0.5, False, self.random.randrange(60),
        )  # fmt: skip
        self.driver.switch_to.window(twins[0])
        self.bench.js(TYPE, theirs, 0.5, False)
        asking = self.settle(first, twins[0], mine, theirs)
        if asking:
            self.history.append("asked")
            self.driver.switch_to.window(asking)
            self.bench.click("This one")
        for tab in (twins[0], first):
            self.driver.switch_to.window(tab)
            self.check()

    def settle(self, one, other, *words):
        """Wait until two tabs show the same, or one asks; return the one that asks, or None."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            texts, asking = [], None
            for tab in (one, other):
                self.driver.switch_to.window(tab)
                texts.append(self.bench.js(f"return {TEXT}"))
                if self.bench.js(f"return {ASKS}"):
                    asking, self.shown[self.bench.lab] = tab, texts[-1]
            if asking or all(word in text for word in words for text in texts):
                break
        assert all(any(word in text for text in texts) for word in words), (self.history, texts)
        assert asking or texts[0] == texts[1], (self.history, texts)
        if not asking:
            self.shown[self.bench.lab] = texts[0]
        return asking

    def python(self):
        """End Python in the middle of a run, and type on."""
        self.bench.press(self.bench.keys.CONTROL + self.bench.keys.ENTER)
        self.bench.js("setTimeout(() => workers.forEach((one) => one.terminate()), arguments[0])",
                      self.moment())  # fmt: skip
        self.type()
        self.bench.js("[...document.querySelectorAll('#bench .bar button')]"
                      ".find((button) => button.textContent === 'Stop').click()")  # fmt: skip
        self.check()

    def service_worker(self):
        self.driver.execute_cdp_cmd("ServiceWorker.enable", {})
        self.driver.execute_cdp_cmd("ServiceWorker.stopAllWorkers", {})
        self.reload()

    def check(self):
        """All that was typed is on the screen, and is kept."""
        bench, text = self.bench, self.shown[self.bench.lab]
        try:
            bench.until(f"{KEPT} && {TEXT}.replace(/{self.unsure}/, '') === {text!r}")
        except Exception:
            raise AssertionError(
                f"{self.history}: {bench.js(f'return {TEXT}')!r}, not {text!r}"
            ) from None
        self.shown[bench.lab] = bench.js(f"return {TEXT}")
        assert bench.code == self.shown[bench.lab], self.history


@pytest.mark.timeout(3600)
def test_no_key_is_lost_by_what_comes_right_after_it(driver, url):
    reader = Reader(driver, url, SEED)
    try:
        for _ in range(STEPS):
            reader.step()
    finally:
        for tab in {*driver.window_handles} & {*reader.tabs}:
            driver.switch_to.window(tab)
            driver.close()
        driver.switch_to.window(reader.home)
