"""What a browser keeps of a reader, in Chromium: code, progress, and the site itself."""

from bench_page import Bench, Page, StripOf, downloaded, serving
from course_code import REFERENCES, in_terminal

from labkit.course.lab import find_labs, pick_lab


def test_a_reload_and_a_new_window_keep_code_and_progress(bench, url):
    source = REFERENCES["03"] + "# mine\n"
    bench.grade(source)
    for _ in range(2):
        bench.driver.refresh()
        bench.open()
        assert bench.code == source
    mine = bench.driver.current_window_handle
    bench.driver.switch_to.new_window("tab")
    try:
        again = Bench(bench.driver, url, "03")
        assert again.code == source
        # The reference is shown to those who have passed, after a reload too.
        assert any(text == "Solution" for text in again.texts("#bench button:not([hidden])"))
    finally:
        bench.driver.close()
        bench.driver.switch_to.window(mine)


def test_a_store_that_fails_once_is_no_other_tab(bench):
    bench.write("kept = 1\n")
    bench.js("window.put = IDBObjectStore.prototype.put;"
             "IDBObjectStore.prototype.put = function (...asked) {"
             "put.apply(this, asked); this.transaction.abort(); }")  # fmt: skip
    bench.press("#")
    bench.until("$('#bench .kept').textContent.startsWith('Not kept')")
    bench.js("IDBObjectStore.prototype.put = put")
    bench.press("!")
    bench.until("$('#bench .kept').textContent.startsWith('Kept')")
    assert bench.code == "kept = 1\n#!"


# Looks again and again whether the service worker keeps a file; `kept` is true once it does.
KEPT = """
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
        bench.grade(REFERENCES["03"])
        for name in ("search.json", "bench/strip.json"):
            bench.js(KEPT, name)
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


def test_the_download_is_the_zip_of_make_bundle_and_make_grade_takes_it(
    bench, checkout, tmp_path, driver
):
    bench.grade(REFERENCES["03"])
    bench.click("Download")
    data = downloaded(tmp_path, "submission-lab-03.zip", bench)
    lab = pick_lab(find_labs(checkout), "03")
    lab.starter.write_text(REFERENCES["03"], "utf-8")
    made = tmp_path / "made.zip"
    in_terminal(checkout, "bundle", "--lab", "03", "--out", str(made))
    assert data == made.read_bytes()
    graded = in_terminal(checkout, "grade", str(tmp_path / "submission-lab-03.zip"))
    assert "score       100/100" in graded


def test_open_takes_a_bundle_back(bench, checkout, tmp_path):
    lab = pick_lab(find_labs(checkout), "03")
    lab.starter.write_text(REFERENCES["03"] + "# from the checkout\n", "utf-8")
    made = tmp_path / "made.zip"
    in_terminal(checkout, "bundle", "--lab", "03", "--out", str(made))
    bench.driver.find_element("css selector", "#bench input[type=file]").send_keys(str(made))
    bench.until("$('#bench .notices').textContent.startsWith('made.zip: the code of lab')")
    bench.until("$('#bench .kept').textContent.startsWith('Kept')")
    assert bench.code.endswith("# from the checkout\n")
