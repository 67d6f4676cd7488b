import csv
import io
import json
import re
import shutil
from dataclasses import replace
from html import escape
from html.parser import HTMLParser

import pytest
from browser import open_browser
from disguise import invented, renamed
from made_grades import made_cohort, made_test, with_tests

from labkit.course.lab import ROOT, find_labs
from labkit.grading.reports.fitting import fit
from labkit.grading.reports.html import write_html
from labkit.grading.reports.pairs import (
    MOST_PAIRS,
    pairs_csv,
    pairs_json,
    similar_groups,
)
from labkit.grading.reports.projector import write_projector
from labkit.grading.reports.statistics import is_attempt
from labkit.running.diagnose import read_mistakes
from labkit.running.result_kind import ResultKind

LABS = find_labs(ROOT / "tests/tiny_repo")
ATTACK = (
    "</script><script>document.title='taken'</script>"
    "<img src=http://127.0.0.1:9/x onerror=alert(1)>"
)


class Reader(HTMLParser):
    """Every tag of a page, and what its data blocks hold."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self._in_data = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._in_data = tag == "script" and dict(attrs).get("type") == "application/json"

    def handle_endtag(self, tag):
        self._in_data = False

    def handle_data(self, data):
        if self._in_data:
            self.data.append(json.loads(data))


def page_of(tmp_path, grades, sources, labs=LABS, name="page.html"):
    path = tmp_path / name
    write_html(similar_groups(grades, sources, labs, {}), path, labs)
    return path, path.read_text(encoding="utf-8")


@pytest.fixture
def hostile():
    grades, sources = made_cohort(12)
    grades[3] = replace(grades[3], student=ATTACK)
    grades[4] = replace(grades[4], fault=ATTACK)
    grades[5] = replace(grades[5], looks_like=ATTACK)
    grades[6] = with_tests(grades[6], kind=ResultKind.RAISED, message=ATTACK)
    grades[7] = replace(grades[7], student="\ud800 & \x00 'quoted\" `${1}` {{ 7 * 7 }}")
    sources[grades[8].submission] = sources[grades[9].submission] = (
        ATTACK.encode() + b"\n\xff\xfe" + invented(99)
    )
    return grades, sources


def test_what_submissions_say_is_text_and_never_markup_and_the_page_asks_for_nothing(
    tmp_path, hostile
):
    _, text = page_of(tmp_path, *hostile)
    tags = Reader(text).tags
    assert sum(tag == "script" for tag, _ in tags) == 2
    for tag, attrs in tags:
        assert tag not in ("img", "link", "iframe", "object", "base", "form")
        assert not [name for name in attrs if name.startswith("on")]
        assert not {"src", "srcset", "data", "action", "style"} & attrs.keys(), (tag, attrs)
        assert attrs.get("href", "#").startswith("#")
    assert "49" not in re.findall(r"`\$\{1\}` ([^<]*)<", text)
    assert "url(" not in text.partition("</style>")[0]
    assert "default-src 'none'" in text
    assert "unsafe" not in text.partition("</head>")[0]


def test_equal_grades_make_equal_bytes_with_each_failure_and_its_message(tmp_path, hostile):
    grades, sources = hostile
    one, text = page_of(tmp_path, grades, sources)
    two, _ = page_of(tmp_path, grades[::-1], dict(reversed(sources.items())), name="again.html")
    assert one.read_bytes() == two.read_bytes()
    (data,) = Reader(text).data
    row = data["students"].index(grades[6].student)
    found = {data["tests"][test][0]: data["messages"][m] for test, m, _ in data["failures"][row]}
    assert found == {test.name: ATTACK for test in grades[6].tests}
    assert [name for name, _ in data["tests"]] == [test.name for test in grades[0].tests]


def test_the_page_for_the_class_has_no_names_no_sources_and_no_hidden_tests(
    tmp_path, hostile, tiny
):
    (lab,) = find_labs(tiny)
    grades, _ = hostile
    (mistake,) = (one for one in read_mistakes(lab.path) if one.name == "triples")
    hidden = made_test("test_secret", 2, 10, "assertion", "no", rule="The rule of a secret.",
                       visibility="after_due_date")  # fmt: skip
    made = {0: "triples", 1: "triples", 2: "triples", 7: "drops"}
    grades = [
        replace(grade, student=f"name {n} {grade.student}", lab=lab.name, seed="secret seed",
                tests=(*grade.tests, hidden), looks_like=made.get(n, grade.looks_like))
        for n, grade in enumerate(grades)
    ]  # fmt: skip
    before = {(fit(grade).student, grade.lab): max(0, grade.score - 20) for grade in grades}
    text = [projected(tmp_path, some, lab, before) for some in (grades, grades[::-1])]
    assert text[0] == text[1]
    for word in ("name 0", "secret", "taken", "after_due_date", "expected 1"):
        assert word not in text[0]
    tags = Reader(text[0]).tags
    assert not [tag for tag, _ in tags if tag in ("script", "img", "a", "link")]
    assert "default-src 'none'" in text[0]
    assert "The last character is missing." not in text[0]
    assert f'3 ×</b> <span class="rule">{mistake.symptom}' in text[0]
    assert escape(mistake.hint) in re.sub("</?code>", "`", text[0])
    more = sum(grade.score > 0 for grade in grades)
    assert f"{more} with more points, 0 with fewer; median" in text[0]
    # The hardest tests are in order, with how many attempts passed.
    shown = re.findall(r"([0-9]+) of ([0-9]+) passed <code>(test_.)</code>", text[0])
    tried = [grade for grade in grades if is_attempt(grade)]
    passed = {test.name: sum(grade.tests[n].passed for grade in tried)
              for n, test in enumerate(grades[0].tests)}  # fmt: skip
    assert [name for *_, name in shown] == sorted(
        (name for name in passed if name != "test_secret"), key=lambda name: passed[name]
    )
    assert {(name, int(count), int(of)) for count, of, name in shown} == {
        (name, passed[name], len(tried)) for *_, name in shown
    }
    assert "Before (outlines)" not in projected(tmp_path, grades, lab, {})


def projected(tmp_path, grades, lab, before):
    write_projector(grades, tmp_path / "projector.html", [lab], before)
    return (tmp_path / "projector.html").read_text(encoding="utf-8")


def test_few_grades_and_labs_and_versions_of_tests_are_told_apart(tmp_path, tiny):
    assert "There are no grades" in page_of(tmp_path, [], {})[1]
    assert "<b>1</b> submissions" in page_of(tmp_path, *made_cohort(1))[1]
    grades, sources = made_cohort(6)
    grades[0] = replace(grades[0], lab="lab-91-other")
    grades[1] = replace(grades[1], assignment="f" * 64)
    (lab,) = find_labs(tiny)
    shutil.copytree(lab.path, lab.path.with_name("lab-91-other"))
    _, text = page_of(tmp_path, grades, sources, find_labs(tiny))
    assert text.count("<section ") == 3
    assert text.count('<a href="#lab') == 3


def test_mistakes_are_told_in_words(tmp_path, tiny):
    labs = find_labs(tiny)
    grades, sources = made_cohort(4, lab=labs[0].name)
    grades[0] = replace(grades[0], looks_like="triples")
    _, text = page_of(tmp_path, grades, sources, labs)
    (mistake,) = (one for one in read_mistakes(labs[0].path) if one.name == "triples")
    row = text.partition("<code>triples</code>")[2].partition("</tr>")[0]
    assert "Text is emitted in threes." in row
    assert f"<td>{escape(mistake.hint)}</td><td>s000</td>" in row


def test_known_sources_are_shown_beside_the_submissions_that_have_them(tmp_path, tiny):
    (lab,) = find_labs(tiny)
    grades, sources = made_cohort(6)
    grades = [replace(grade, lab=lab.name) for grade in grades]
    grades[1] = replace(grades[1], student="Ada Lovelace_4711_assignsubmission_file_")
    engine = tiny / "mini_vllm/text/stop.py"
    engine.parent.mkdir(parents=True)
    engine.write_bytes(invented(77))
    places = [grades[n].submission for n in (1, 3)]
    sources[places[0]] = b"#" * 50_000 + b"\n" + invented(77) + invented(78)
    sources[places[1]] = renamed(invented(79), {"f"})
    path = tmp_path / "page.html"
    earlier = {lab.name: {"2025: eve": invented(79)}}
    write_html(similar_groups(grades, sources, [lab], earlier), path, [lab])
    text = path.read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(pairs_csv(similar_groups(grades, sources, [lab], earlier))))
    assert ("known source", grades[3].student, "2025: eve", "") in {
        (row["kind"], row["left"], row["right"], row["right_score"]) for row in rows
    }
    (data,) = (block for block in Reader(text).data)
    found = {(data["students"][left], data["students"][right]) for left, right, _ in data["pairs"]}
    assert found >= {
        ("Ada Lovelace", "mini_vllm/text/stop.py"), (grades[3].student, "2025: eve")
    }  # fmt: skip
    assert f"<b>100 %</b> Ada Lovelace ({grades[1].score}) and mini_vllm" in text
    assert data["sources"][str(data["students"].index("2025: eve"))] == invented(79).decode()


def test_equal_files_are_one_row_and_unusual_code_is_listed(tmp_path, tiny):
    (lab,) = find_labs(tiny)
    grades, sources = made_cohort(6, lab=lab.name)
    same = [replace(grades[n], submission=grades[0].submission, tests=grades[0].tests)
            for n in (1, 2)]  # fmt: skip
    copy = replace(grades[3], student="zoe")
    sources[copy.submission] = b"# coding: utf-7\nimport os\n" + renamed(
        sources[grades[0].submission], {"f"}
    )
    _, text = page_of(tmp_path, [grades[0], *same, copy, *grades[4:]], sources, [lab])
    score = grades[0].score
    scores = {"s000": score, "zoe": copy.score}
    assert f"<li>s000, s001, s002 ({score})</li>" in text
    assert text.count('class="pair"') == 1
    assert "s000, s001, s002" in text.partition('class="pair"')[2].partition("</details>")[0]
    assert "<li>zoe: its coding line makes Python read another text: utf-7; uses files" in text
    assert text.count("<li>s00") == 1
    similar = similar_groups([grades[0], *same, copy, *grades[4:]], sources, [lab], {})
    rows = [*csv.DictReader(io.StringIO(pairs_csv(similar)))]
    assert [(row["kind"], row["left"], row["right"], row["likeness"]) for row in rows] == [
        ("same file", "s000", "s001", "1.0"), ("same file", "s000", "s002", "1.0"),
        ("similar", *sorted(["s000", "zoe"], key=lambda name: -scores[name]), "0.677"),
    ]  # fmt: skip
    lines = {rows[2][side]: rows[2][f"{side}_lines"] for side in ("left", "right")}
    assert all(re.fullmatch(r"[0-9]+-[0-9]+( [0-9]+-[0-9]+)*", text) for text in lines.values())
    # The copy has two lines more at its beginning.
    first = {name: int(text.partition("-")[0]) for name, text in lines.items()}
    assert first["zoe"] >= first["s000"] + 2
    told = json.loads(pairs_json(similar))
    assert told["schema"] == "labkit/pairs/v1"
    assert [{key: "" if value is None else str(value) for key, value in row.items()}
            for row in told["pairs"]] == rows  # fmt: skip


def test_a_thousand_submissions_stay_small(tmp_path):
    grades, sources = made_cohort(1000)
    for number, grade in enumerate(grades):
        told = f"rule      x\nexpected {number} %s {'é' * 3_000}"
        failed = [
            replace(one, kind=ResultKind.ASSERTION, detail=told % one.name) for one in grade.tests
        ]
        grades[number] = replace(grade, tests=tuple(failed))
    path, text = page_of(tmp_path, grades, sources)
    assert path.stat().st_size < 10 << 20
    assert text.count("<tr data-student>") == 1000
    (data,) = Reader(text).data
    assert sum(map(len, data["failures"])) == 4_000


@pytest.fixture(scope="module")
def browser():
    with open_browser() as driver:
        yield driver


def find(driver, selector):
    return driver.find_elements("css selector", selector)


def names(driver):
    return [row.text for row in find(driver, "tr[data-student] td.name")]


def test_in_a_browser_nothing_hostile_runs_and_nothing_is_fetched(tmp_path, hostile, browser, tiny):
    labs = find_labs(tiny)
    grades, sources = hostile
    grades = [replace(grade, lab=labs[0].name) for grade in grades]
    path, _ = page_of(tmp_path, grades, sources, labs)
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    for details in find(browser, "details"):
        browser.execute_script("arguments[0].open = true", details)
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert browser.title == f"Grades of {labs[0].name}"
    assert browser.get_log("browser") == []
    log = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {entry["params"]["request"]["url"] for entry in log
             if entry["method"] == "Network.requestWillBeSent"}  # fmt: skip
    assert asked == {path.as_uri()}
    assert ATTACK in [box.get_property("textContent") for box in find(browser, ".failure pre")]
    assert ATTACK in "".join(box.get_property("textContent") for box in find(browser, ".sides"))
    assert find(browser, "img") == []


def test_in_a_browser_tables_sort_and_filter_by_keyboard(tmp_path, browser):
    grades, sources = made_cohort(30)
    browser.get(page_of(tmp_path, grades, sources)[0].as_uri())
    scores = {grade.student: grade.score for grade in grades}
    assert [scores[name] for name in names(browser)] == sorted(scores.values(), reverse=True)
    button = next(b for b in find(browser, "th button") if b.text.startswith("score"))
    browser.execute_script("arguments[0].focus()", button)
    browser.switch_to.active_element.send_keys("\n")
    assert [scores[name] for name in names(browser)] == sorted(scores.values())
    assert button.find_element("xpath", "..").get_attribute("aria-sort") == "ascending"
    find(browser, "input[type=search]")[0].send_keys("s007")
    shown = [row for row in find(browser, "tr[data-student]") if row.is_displayed()]
    assert [row.text.split()[0] for row in shown] == ["s007"]


def test_in_a_browser_failures_unfold_below_their_row_and_stay_there(tmp_path, browser):
    grades, sources = made_cohort(8)
    browser.get(page_of(tmp_path, grades, sources)[0].as_uri())
    row = next(r for r in find(browser, "tr[data-student]") if find(r, "details"))
    name = find(row, "td.name")[0].text
    find(row, "summary")[0].click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    grade = next(grade for grade in grades if grade.student == name)
    failed = [test.name for test in grade.tests if not test.passed]
    below = "return arguments[0].nextElementSibling"
    more = browser.execute_script(below, row)
    assert [code.text for code in find(more, "code")] == failed
    next(b for b in find(browser, "th button") if b.text.startswith("student")).click()
    assert browser.execute_script(below, row) == more


def test_in_a_browser_a_pair_shows_both_with_the_shared_lines_marked(tmp_path, browser, tiny):
    labs = find_labs(tiny)
    grades, sources = made_cohort(5, lab=labs[0].name)
    digests = [grade.submission for grade in grades]
    sources[digests[1]] = b"# mine\n\n" + renamed(sources[digests[0]], set(dir(__builtins__)))
    path, text = page_of(tmp_path, grades, sources, labs)
    assert text.count('<details class="pair"') == 1 <= MOST_PAIRS
    browser.get(path.as_uri())
    find(browser, "details.pair summary")[0].click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    left, right = find(browser, ".sides > div")
    assert {left.get_attribute("aria-label"), right.get_attribute("aria-label")} == {"s000", "s001"}
    assert len(find(right, ".hit")) > 0.9 * (sources[digests[1]].count(b"\n") - 2)
