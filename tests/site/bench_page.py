"""The bench of a lab as a person uses it, for tests in a browser."""

import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

from course_code import REFERENCES

from labkit.publish.site.serve import make_server

SECONDS = 90
# Each look takes some of the processor from what is waited for.
LOOK_SECONDS = 0.1
KEPT = "/^Kept/.test($('#bench .kept').textContent) && $('#bench .kept').ariaBusy !== 'true'"
# Does something as soon as a run has begun.
AS_A_RUN_BEGINS = """
const report = document.querySelector("#bench .report");
new MutationObserver((_, observer) => {{
  if (report.ariaBusy !== "true") return;
  observer.disconnect();
  {}
}}).observe(report, {{ attributes: true }});
"""
_FIND = "const $ = (selector) => document.querySelector(selector);"
EDITOR = "document.querySelector('#bench .editor').shadowRoot?.querySelector('.cm-content')"
_STRIP = "const $ = (id) => document.getElementById('strip').shadowRoot.getElementById(id);"


def focus(condition):
    """Return a JavaScript expression: the condition on the element with the focus, `at`, which may
    be in a shadow tree.
    """
    active = "document.activeElement.shadowRoot?.activeElement ?? document.activeElement"
    return f"((at) => {condition})({active})"


@contextmanager
def serving(folder):
    """Serve a site at a port of its own; yields the server, whose `url` is its address."""
    server = make_server(folder, 0)
    server.url = f"http://127.0.0.1:{server.server_port}/"
    begin, connections = server.process_request, []

    def process_request(connection, address):
        connections.append(connection)
        begin(connection, address)

    server.process_request = process_request
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        # A browser would still be answered on the connections that it keeps.
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()


class Page:
    """Any page of the site."""

    def __init__(self, driver, address):
        from selenium.webdriver.common.keys import Keys

        self.keys = Keys
        self.driver = driver
        driver.get(address)

    def js(self, code, *arguments):
        return self.driver.execute_script(_FIND + code, *arguments)

    def until(self, condition):
        """Wait for a JavaScript expression, and return its value."""
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, SECONDS, LOOK_SECONDS).until(
            lambda _: self.js(f"return {condition}"), condition
        )

    def text(self, selector):
        return self.js("return $(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        code = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.js(code, selector)

    def press(self, *keys):
        """Press keys, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver)
        for key in keys:
            modifier = key[0] if len(key) > 1 else None
            if modifier:
                chain = chain.key_down(modifier).send_keys(key[1:]).key_up(modifier)
            else:
                chain = chain.send_keys(key)
        chain.perform()

    def tab_to(self, condition, most=400):
        """Press Tab until the element with the focus, `at`, is such a one."""
        for _ in range(most):
            self.press(self.keys.TAB)
            if self.js(f"return {focus(condition)}"):
                return
        raise AssertionError(f"{most} times Tab led to nothing with {condition}")


class Bench(Page):
    """The page of one lab, its editor open."""

    def __init__(self, driver, url, lab):
        super().__init__(driver, f"{url}labs/{lab}/")
        self.lab = lab
        self.open()

    def open(self):
        """Bring the bench into view, so that the editor opens."""
        self.until("$('#bench button')")
        self.js("if (!document.body.classList.contains('bench-open')) $('.to-code').click()")
        self.until(f"$('#bench .editor') && {EDITOR} && $('#bench .kept')?.textContent")

    @property
    def editor(self):
        """The element into which one types."""
        return self.js(f"return {EDITOR}")

    def click(self, name):
        """Press the button of the bench whose text begins so."""
        code = "return [...document.querySelectorAll('#bench button')].find((e) => !e.hidden && "
        self.js(code + "e.textContent.startsWith(arguments[0]))", name).click()

    # The editor

    def write(self, source):
        """Put a source into the editor, in place of what is there, as an input method does."""
        self.editor.click()
        self.press(self.keys.CONTROL + "a")
        self.driver.execute_cdp_cmd("Input.insertText", {"text": source})
        self.until(KEPT)

    @property
    def code(self):
        """What the browser keeps of this lab."""
        return self.driver.execute_async_script(
            """
            const [lab, done] = arguments;
            const open = indexedDB.open("course");
            open.onsuccess = () => {
              const get = open.result.transaction("code").objectStore("code").get(lab);
              get.onsuccess = () => { open.result.close(); done(get.result?.text ?? null); };
            };
            """,
            self.lab,
        )

    # Runs

    def run(self):
        """Run the tests with the keyboard, and wait for the report, or for what is in its place."""
        mark = "$('#bench .report').append(Object.assign(document.createElement('i'), {id: 'old'}))"
        self.js(mark)
        self.editor.click()
        self.press(self.keys.CONTROL + self.keys.ENTER)
        return self.wait()

    def wait(self):
        """Wait for the end of a run; return what is told of it."""
        self.until("!$('#old') && $('#bench .report').ariaBusy !== 'true'")
        return self.text("#bench .status")

    def grade(self, source):
        """Write a source and run it; return what is told."""
        self.write(source)
        return self.run()

    @property
    def score(self):
        """Points, and of how many."""
        words = self.text("#bench .report .score").split()
        return int(words[0]), int(words[2])

    @property
    def failing(self):
        """The names of the tests that are said to fail, in cards."""
        return set(self.texts("#bench .failure h4 code, #bench .failure .more li code"))

    @property
    def terminal(self):
        """The report as a terminal prints it."""
        return self.texts("#bench .report details.more pre")[-1]


class StripOf:
    """The strip below a bench."""

    def __init__(self, bench):
        self.bench = bench
        bench.js(
            "[...document.querySelectorAll('#bench .views button')]"
            ".find((e) => innerWidth < 1100 && e.textContent === 'Text only')?.click();"
            "$('#strip').scrollIntoView()"
        )
        bench.until("$('#strip').shadowRoot?.getElementById('text')")

    def js(self, code, *arguments):
        return self.bench.driver.execute_script(_STRIP + code, *arguments)

    def play(self, text=None, pace=0):
        """Play a text; return what is told of it."""
        self.js(
            "if (arguments[0] !== null) $('text').value = arguments[0];"
            "$('pace').value = arguments[1];"
            "$('pace').dispatchEvent(new Event('input')); $('text').form.requestSubmit()",
            text,
            pace,
        )
        status = "$('#strip').shadowRoot.getElementById('status').textContent"
        self.bench.until(f"/^(Done|Stopped|Your code stopped)/.test({status})")
        return self.js("return $('status').textContent")

    @property
    def rows(self):
        """The cells of the table, a list for each row."""
        cells = "[...row.cells].map((cell) => cell.textContent)"
        return self.js(f"return [...$('steps').tBodies[0].rows].map((row) => {cells})")

    def said(self, whose):
        """What `naive`, `own` or `reference` has emitted."""
        return self.js("return $('sums').querySelector(`.${arguments[0]} td`).textContent", whose)


def downloaded(folder: Path, name, bench):
    """Return the bytes of a download, once it is there."""
    from selenium.webdriver.support.wait import WebDriverWait

    file = folder / name
    WebDriverWait(bench.driver, SECONDS, LOOK_SECONDS).until(lambda _: file.exists())
    return file.read_bytes()


def pass_first(driver, url, numbers):
    """Pass some labs, as a lab that builds on them asks for."""
    for number in numbers:
        first = Bench(driver, url, number)
        first.grade(REFERENCES[number])
        assert first.score == (100, 100)
