"""What a browser keeps of a reader, in Chromium: code, progress, and the site itself."""

import json

import pytest
from bench_page import AS_A_RUN_BEGINS, EDITOR, KEPT, Bench, Page, StripOf, downloaded, serving
from course_code import LABS, REFERENCES, in_terminal

from labkit.course.lab import find_labs, pick_lab
from labkit.grading.reading.bundles import packed

# What a reader does right after a key, in JavaScript.
LEAVES = {"reload": "location.reload()", "link": "location.href = '../02/'", "close": ""}


@pytest.fixture(scope="class")
def passed(bench):
    """The bench after a run that has 100 points."""
    bench.grade(REFERENCES["03"])
    assert bench.score == (100, 100)
    return bench


# The message of the bench has this text.
SAYS = "$('#bench .notices').textContent.includes('{}')"
# The bytes of a file to open, the message, and the code of lab 03 then.
OPENS = {
    "starter.py": (b"\xef\xbb\xbfx = 1\r\n", ": the code of lab 03 is loaded", "x = 1\n"),
    "latin.py": (b"x = '\xe9'\n", " could not be opened: it is not UTF-8", "mine = 1\n"),
    "HOME.ZIP": (packed({"starter.py": b"x = 2\n"}), ": the code of lab 03 is loaded", "x = 2\n"),
    "NO.ZIP": (b"", " could not be opened: it is not a zip", "mine = 1\n"),
    "NO.JSON": (b"{", " could not be opened: it is not an export", "mine = 1\n"),
}
# Another tab's record of a lab, `arguments[0]`, whose code has passed.
PASS = """
const open = indexedDB.open("course");
open.onsuccess = () => {
  const store = open.result.transaction("progress", "readwrite").objectStore("progress");
  store.put({ score: 100, solved: true, passing: [["1", "2"]] }, arguments[0]);
};
"""
RENAMED = "import mini_vllm.text.events as events\n"


@pytest.mark.parametrize("number", ["01", "09"])
def test_a_lab_that_passes_is_offered_as_the_file_of_make_plugin(
    driver, url, checkout, tmp_path, downloads, number
):
    bench = Bench(driver, url, number)
    bench.grade(REFERENCES[number])
    driver.refresh()
    bench.open()
    bench.until("$('#bench button.plugin')")
    bench.click("Report")
    bench.click("Plug-in")
    data = downloaded(downloads, "my_parser.py", bench)
    pick_lab(find_labs(checkout), number).starter.write_text(REFERENCES[number], "utf-8")
    made = tmp_path / "my_parser.py"
    in_terminal(checkout, "plugin", "--lab", number, "--out", str(made))
    assert data == made.read_bytes()
    bench.write(REFERENCES[number] + "# changed\n")
    bench.click("Plug-in")
    bench.until(SAYS.format("No plug-in: your current code has not passed all tests"))
    bench.grade(REFERENCES[number] + RENAMED)
    assert bench.score == (100, 100)
    bench.click("Plug-in")
    bench.until(SAYS.format("cannot be copied into one file"))
    bench.grade(REFERENCES[number] + "raise ValueError\n")
    assert bench.js("return $('#bench button.plugin')") is None


class TestOneReader:
    def test_the_download_is_the_zip_of_make_bundle_and_make_grade_takes_it(
        self, passed, checkout, tmp_path, downloads
    ):
        passed.click("Download")
        data = downloaded(downloads, "submission-lab-03.zip", passed)
        lab = pick_lab(find_labs(checkout), "03")
        lab.starter.write_text(REFERENCES["03"], "utf-8")
        made = tmp_path / "made.zip"
        in_terminal(checkout, "bundle", "--lab", "03", "--out", str(made))
        assert data == made.read_bytes()
        graded = in_terminal(checkout, "grade", str(downloads / "submission-lab-03.zip"))
        assert "score       100/100" in graded

    def test_open_takes_a_bundle_back(self, passed, checkout, tmp_path):
        lab = pick_lab(find_labs(checkout), "03")
        lab.starter.write_text(REFERENCES["03"] + "# from the checkout\n", "utf-8")
        made = tmp_path / "made.zip"
        in_terminal(checkout, "bundle", "--lab", "03", "--out", str(made))
        passed.driver.find_element("css selector", "#bench input[type=file]").send_keys(str(made))
        passed.until("$('#bench .notices').textContent.startsWith('made.zip: the code of lab')")
        passed.until(KEPT)
        assert passed.code.endswith("# from the checkout\n")

    @pytest.mark.parametrize("name", OPENS)
    def test_a_file_that_is_not_an_export_is_code_or_refused_in_words(self, passed, tmp_path, name):
        data, words, code = OPENS[name]
        (tmp_path / name).write_bytes(data)
        passed.write("mine = 1\n")
        passed.driver.find_element("css selector", "#bench input[type=file]").send_keys(
            str(tmp_path / name)
        )
        passed.until(SAYS.format(f"{name}{words}"))
        passed.until(KEPT)
        assert passed.code == code

    def test_a_reload_and_a_new_window_keep_code_and_progress(self, passed, url):
        source = REFERENCES["03"] + "# mine\n"
        passed.write(source)
        passed.js("$('#bench .student input').focus()")
        passed.press(*"Ada")
        for _ in range(2):
            passed.driver.refresh()
            passed.open()
            assert passed.code == source
        name = passed.driver.find_element("css selector", "#bench .student input")
        assert name.get_property("value") == "Ada"
        name.clear()
        mine = passed.driver.current_window_handle
        passed.driver.switch_to.new_window("tab")
        try:
            again = Bench(passed.driver, url, "03")
            assert again.code == source
            # The reference is shown to those who have passed, after a reload too.
            assert any(text == "Solution" for text in again.texts("#bench button:not([hidden])"))
        finally:
            passed.driver.close()
            passed.driver.switch_to.window(mine)

    def test_an_export_gives_a_cleared_browser_code_and_progress_back(self, passed, url, downloads):
        passed.write(REFERENCES["03"] + "# mine\n")
        passed.click("Export all")
        downloaded(downloads, "course.json", passed)
        origin = {"origin": url.rstrip("/"), "storageTypes": "all"}
        passed.driver.get("about:blank")
        passed.driver.execute_cdp_cmd("Storage.clearDataForOrigin", origin)
        again = Bench(passed.driver, url, "03")
        assert again.code is None
        assert "Solution" not in again.texts("#bench button:not([hidden])")
        export = downloads / "course.json"
        everything = json.loads(export.read_bytes())
        # Another edition may have more labs.
        export.write_text(json.dumps(everything | {"code": {**everything["code"], "99": ""}}))
        file = again.driver.find_element("css selector", "#bench input[type=file]")
        file.send_keys(str(export))
        again.until("$('#bench .notices').textContent.startsWith('course.json: code and progress')")
        assert "This course has no lab 99" in again.text("#bench .notices")
        again.until(KEPT)
        assert again.code == REFERENCES["03"] + "# mine\n"
        assert "Solution" in again.texts("#bench button:not([hidden])")
        again.run()
        assert again.score == (100, 100)

    def test_an_export_takes_the_place_of_the_code_of_other_labs_until_undo(
        self, bench, url, tmp_path
    ):
        other = Bench(bench.driver, url, "02")
        other.write("mine = 2\n")
        again = Bench(bench.driver, url, "03")
        export = tmp_path / "course.json"
        everything = {"kind": "course-backup", "code": {"02": "theirs = 2\n"}, "progress": {}}
        export.write_text(json.dumps(everything))
        again.driver.find_element("css selector", "#bench input[type=file]").send_keys(str(export))
        again.until(SAYS.format("course.json: code and progress are loaded"))
        assert other.code == "theirs = 2\n"
        again.click("Undo")
        again.until(SAYS.format("Your code is restored"))
        assert other.code == "mine = 2\n"

    def test_a_run_keeps_what_another_tab_has_passed_meanwhile(self, bench):
        bench.write("x = 1\n")
        bench.js(AS_A_RUN_BEGINS.format(PASS), LABS["03"].name)
        bench.run()
        assert bench.text(".md-nav--primary .lab-points") == "✓ (passed)"
        bench.driver.refresh()
        bench.open()
        assert bench.text(".md-nav--primary .lab-points") == "✓ (passed)"

    def test_code_is_kept_again_after_the_sites_data_was_cleared(self, bench, url):
        bench.write("kept = 1\n")
        origin = {"origin": url.rstrip("/"), "storageTypes": "all"}
        bench.driver.execute_cdp_cmd("Storage.clearDataForOrigin", origin)
        bench.press("#")
        bench.until(KEPT)
        assert bench.code == "kept = 1\n#"
        bench.driver.execute_cdp_cmd("Storage.clearDataForOrigin", origin)
        bench.run()
        assert bench.score == (0, 100)

    def test_a_store_that_fails_once_is_no_other_tab(self, bench):
        bench.write("kept = 1\n")
        bench.js("window.put = IDBObjectStore.prototype.put;"
                 "IDBObjectStore.prototype.put = function (...asked) {"
                 "put.apply(this, asked); this.transaction.abort(); }")  # fmt: skip
        bench.press("#")
        bench.until("$('#bench .kept').textContent.startsWith('Not kept')")
        bench.js("IDBObjectStore.prototype.put = put")
        bench.press("!")
        bench.until(KEPT)
        assert bench.code == "kept = 1\n#!"

    @pytest.mark.parametrize("how", LEAVES)
    def test_a_key_is_kept_by_whoever_leaves_at_once(self, bench, url, how):
        bench.write("kept = 1\n")
        mine = bench.driver.current_window_handle
        if how == "close":
            bench.driver.switch_to.new_window("tab")
            Bench(bench.driver, url, "03")
        bench.js("window.left = true")
        bench.js(f"{EDITOR}.focus(); document.execCommand('insertText', false, '#'); {LEAVES[how]}")
        if how == "close":
            bench.driver.close()
            bench.driver.switch_to.window(mine)
        else:
            bench.until("!window.left && document.readyState === 'complete'")
        again = Bench(bench.driver, url, "03")
        again.until(KEPT)
        assert sorted(again.code) == sorted("kept = 1\n#")

    def test_a_key_from_before_another_tab_changed_the_lab_asks_which_stays(self, bench):
        bench.write("theirs = 1\n")
        draft = {"lab": "03", "text": "mine = 1", "version": 0, "by": "gone", "count": 1, "time": 0}
        bench.js("localStorage.setItem('course-draft:03:gone', arguments[0])", json.dumps(draft))
        bench.driver.refresh()
        bench.open()
        bench.until("$('#bench .notices').textContent.includes('Which version do you keep?')")
        assert bench.code == "theirs = 1\n"
        bench.click("This one")
        bench.until(KEPT)
        assert bench.code == "mine = 1"


# Looks again and again whether the service worker keeps a file; `kept` is true once it does.
IS_KEPT = """
window.kept = false;
const look = async (url) => {
  if (await caches.match(url)) window.kept = true;
  else setTimeout(look, 20, url);
};
look(new URL("../../" + arguments[0], location).href);
"""


def test_the_site_works_offline_after_the_first_visit(driver, folder):
    with serving(folder) as server:
        bench = Bench(driver, server.url, "03")
        bench.write(REFERENCES["03"])
        bench.until("$('#bench .status').textContent === 'Python is ready.'")
        for name in ("search.json", "bench/strip.json"):
            bench.js(IS_KEPT, name)
            bench.until("window.kept")
    # The server is gone.
    bench = Bench(driver, server.url, "03")
    assert bench.code == REFERENCES["03"]
    bench.run()
    assert bench.score == (100, 100)
    assert StripOf(bench).play().startswith("Done")
    page = Page(driver, f"{server.url}labs/03/")
    page.until("$('.md-search__button')").click()
    found = "[...document.querySelectorAll('*')].find((e) => e.shadowRoot?.querySelector('dialog'))"
    page.until(f"{found}?.shadowRoot.querySelector('dialog[open] input')")
    page.press(*"surrogate")
    page.until(f"{found}.shadowRoot.querySelector('[role=option]')")


def test_on_request_the_whole_course_works_offline(driver, folder):
    with serving(folder) as server:
        bench = Bench(driver, server.url, "03")
        offer = "[...document.querySelectorAll('#bench .shelf button:not([hidden])')].find((e) => "
        bench.until(f"{offer} /^Keep this course offline \\(\\d+ MB\\)$/.test(e.textContent))")
        bench.click("Keep this course offline")
        bench.until("$('#bench .notices').textContent.startsWith('The whole course is kept')")
    # The server is gone.
    pages = [page.relative_to(folder) for page in folder.rglob("index.html")]
    addresses = [page.as_posix().removesuffix("index.html") for page in pages]
    for address in [*addresses, "index.html", "labs/03", "labs/03/index.html"]:
        driver.get(f"{server.url}{address}")
        assert "Not here yet" not in driver.title, address
    other = Bench(driver, server.url, "10")
    assert "Keep this course offline" not in "".join(other.texts("#bench button:not([hidden])"))
