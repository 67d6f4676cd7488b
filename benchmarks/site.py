"""How soon a page's Python is ready, and how long a run takes there, in Chromium.

*bench ready* is a first visit to lab 03, from its address to "Python is ready", with a key typed as
soon as there is an editor. Its peer is a page that only loads Pyodide as it is published. Both have
empty caches. A *warm run* is that of a page which has been idle, and so has two interpreters ready:
from Run to the report, of the reference of lab 03; its peer is CPython, a whole process of pytest
on the same lab. *First line* is the time from Run to the first test that the page counts. The
*following run* begins as soon as the report is there, and the *third run* as soon as its report is
there: it waits for the start of an interpreter. All take turns. It needs `make site`, chromium and
chromium-driver.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.aims import at_most
from benchmarks.harness import Report, main
from benchmarks.peers.detokenizers import ROOT

sys.path[:0] = [str(ROOT / "tests" / name) for name in ("site", "server")]

from bench_page import EDITOR, Bench, serving  # noqa: E402
from browser import open_browser  # noqa: E402
from course_code import LABS, REFERENCES  # noqa: E402

SITE = Path(os.environ.get("SITE", ROOT / "build" / "site"))
PYODIDE = ROOT / "site" / "node_modules" / "pyodide"
READY_AIM = at_most("bench ready / peer", "a page that only loads Pyodide", 2)
WARM_AIM = at_most("warm run / peer", "CPython as a process", 1.5)
FIRST_AIM = at_most("seconds to the first line of a result", "", 0.3)
FOLLOWING_AIM = at_most("following run / peer", "warm run", 1)
ROUNDS = 7
SECONDS = 120

# Counts the interpreters that are ready.
WATCH = """
window.ready = 0;
window.Worker = class extends Worker {
  constructor(...options) {
    super(...options);
    this.addEventListener("message", ({data}) => { ready += data.what === "Ready"; });
  }
};
"""
LOAD = """
const [folder, done] = arguments;
const { loadPyodide } = await import(folder + "pyodide.mjs");
(await loadPyodide({ indexURL: folder })).runPython("1 + 1");
done(performance.now());
"""
WAIT = """
const done = arguments[arguments.length - 1];
const $ = (selector) => document.querySelector(selector);
const until = async (condition) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 4));
  return performance.now();
};
"""
READY = f"""{WAIT}
await until(() => $("#bench .editor") && {EDITOR});
{EDITOR}.focus();
document.execCommand("insertText", false, " ");
done(await until(() => ready));
"""
RUN = f"""{WAIT}
const times = [];
for (const wait of [() => ready > 1, () => true, () => true]) {{
  await until(wait);
  const old = Object.assign(document.createElement("i"), {{id: "old"}});
  $("#bench .report").append(old);
  const began = performance.now();
  ready = 0;
  $("#bench .bar .main").click();
  const first = await until(() => $("#bench .status").dataset.now || !$("#old"));
  const last = await until(() => !$("#old") && $("#bench .report").ariaBusy !== "true");
  times.push([first - began, last - began]);
}}
done(times);
"""


class Rounds:
    """Measures each thing once a round."""

    def __init__(self, driver: Any, bench_url: str, pyodide_url: str) -> None:
        self._driver = driver
        self._bench_url = bench_url
        self._pyodide_url = pyodide_url
        self.times: dict[str, list[float]] = {}
        driver.set_script_timeout(SECONDS)
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})

    def add(self, name: str, seconds: float) -> None:
        """Add a figure."""
        self.times.setdefault(name, []).append(seconds)

    def clear(self, url: str) -> None:
        """Leave nothing in the browser of earlier visits."""
        self._driver.get("about:blank")
        self._driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        origin = {"origin": url.rstrip("/"), "storageTypes": "all"}
        self._driver.execute_cdp_cmd("Storage.clearDataForOrigin", origin)

    def pyodide(self) -> None:
        """A page that only loads Pyodide."""
        self.clear(self._pyodide_url)
        self._driver.get(self._pyodide_url)
        self.add("pyodide", self._call(LOAD, self._pyodide_url) / 1000)

    def bench(self) -> None:
        """The first visit, and three runs."""
        self.clear(self._bench_url)
        self._driver.get(f"{self._bench_url}labs/03/")
        self.add("ready", self._call(READY) / 1000)
        page = Bench(self._driver, self._bench_url, "03")
        page.write(REFERENCES["03"])
        (first, warm), (_, following), (_, third) = self._call(RUN)
        assert page.score == (100, 100)
        times = {"first": first, "warm": warm, "following": following, "third": third}
        for name, milliseconds in times.items():
            self.add(name, milliseconds / 1000)

    def cpython(self) -> None:
        """The lab as a process."""
        env = {**os.environ, "LAB_IMPL": "solution", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   str(LABS["03"].path)]  # fmt: skip
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
        self.add("cpython", time.perf_counter() - began)

    def _call(self, code: str, *arguments: str) -> Any:
        # `await` needs a function of its own.
        body = f"const all = arguments; (async function () {{ {code} }})(...all)"
        return self._driver.execute_async_script(body, *arguments)


def work(report: Report) -> None:
    """Measure in turns."""
    generator = random.Random(0)
    with (tempfile.TemporaryDirectory() as folder, open_browser() as driver, serving(SITE) as site,
          serving(_pyodide_page(Path(folder))) as pyodide):  # fmt: skip
        rounds = Rounds(driver, site.url, pyodide.url)
        order = [rounds.pyodide, rounds.bench, rounds.cpython]
        for _ in range(1 if report.quick else ROUNDS):
            generator.shuffle(order)
            for measure in order:
                measure()
    median = {name: statistics.median(times) for name, times in rounds.times.items()}
    header = ["what", "seconds", "ratio", "to"]
    rows = [
        ["bench ready, first visit", median["ready"], median["ready"] / median["pyodide"],
         "a page that only loads Pyodide"],
        ["a page that only loads Pyodide", median["pyodide"], 1.0, ""],
        ["warm run", median["warm"], median["warm"] / median["cpython"], "CPython as a process"],
        ["first line of its result", median["first"], median["first"] / median["warm"],
         "the warm run"],
        ["following run, at once", median["following"], median["following"] / median["warm"],
         "the warm run"],
        ["third run, at once", median["third"], median["third"] / median["warm"], "the warm run"],
        ["CPython as a process", median["cpython"], 1.0, ""],
    ]  # fmt: skip
    report.table("lab 03 in Chromium", header, rows)
    report.judge(READY_AIM, rows[0][2])
    report.judge(WARM_AIM, rows[2][2])
    report.judge(FIRST_AIM, median["first"])
    report.judge(FOLLOWING_AIM, rows[4][2])


def _pyodide_page(folder: Path) -> Path:
    """Write a site that has nothing but Pyodide, and an empty page."""
    for path in PYODIDE.iterdir():
        if path.suffix in (".mjs", ".wasm", ".zip", ".json"):
            shutil.copy2(path, folder)
    policy = "script-src 'self' 'wasm-unsafe-eval' 'unsafe-eval'"
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    (folder / "index.html").write_text(f"<!doctype html><title>Pyodide</title>{meta}")
    return folder


def available() -> bool:
    """Return whether there is a site to measure."""
    return (SITE / "index.html").exists() and PYODIDE.exists()


if __name__ == "__main__":
    if available():
        main(work, name="site", about=__doc__, pin=False)
    else:
        print(f"There is no site in {SITE}: `make site` builds it.")
