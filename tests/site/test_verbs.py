"""The browser's verbs and archives, in this Python: no node is needed.

Each verb is called in a folder that is unpacked as a browser does it.
"""

import ast
import base64
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest
from interpreter import LONG
from rich._unicode_data._versions import VERSIONS

from labkit.browser.labs import labs_data, page_starter
from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.grading.reading.bundles import make_bundle
from labkit.publish.packing import write_folder, write_zip
from labkit.publish.site.archive import make_archive, make_packages
from labkit.publish.site.bench import write_archives
from labkit.publish.site.checks import folder_bytes
from labkit.running.source import MOST_SOURCE_BYTES
from labkit.serving.plugin_file import make_plugin

LAB = pick_lab(find_labs(ROOT), "03")
RIGHT = LAB.solution.read_text("utf-8")
MOST_BYTES = 2_000_000
# Calls verbs, each of which is a line of what is asked, in the folder that a browser would unpack.
PROGRAM = """
import json, sys
import labkit.browser.verbs as verbs
events = []
verbs.prepare()
verbs.begin(events.append, False)
for verb, argument in json.load(sys.stdin):
    print(getattr(verbs, verb)(argument))
print(json.dumps(events))
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    write_folder(folder, make_archive(ROOT, ROOT))
    return folder


@pytest.fixture
def ask(unpacked):
    """Call verbs in a process of their own; return their answers, and the events."""

    def ask(*asked):
        given = [(verb, json.dumps(one)) for verb, one in asked]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=unpacked, input=json.dumps(given),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        *answers, events = map(json.loads, done.stdout.splitlines())
        return answers, [*map(json.loads, events)]

    return ask


def test_the_archives_are_small(tmp_path):
    write_archives(ROOT, ROOT, tmp_path)
    assert folder_bytes(tmp_path) < MOST_BYTES


def test_of_richs_widths_of_characters_only_those_that_it_reads_are_packed():
    widths = [name for name in make_packages() if name.startswith("rich/_unicode_data/unicode")]
    assert widths == [f"rich/_unicode_data/unicode{VERSIONS[-1].replace('.', '-')}.py"]


@LONG
def test_what_a_boot_imports_is_compiled(archives):
    modules = {
        "course.zip": "labkit/browser/__pycache__/verbs.cpython-314.pyc",
        "python.zip": "pytest/__pycache__/__init__.cpython-314.pyc",
        "pyodide/python_stdlib.zip": "json/__init__.pyc",
    }
    for name, module in modules.items():
        with zipfile.ZipFile(archives / name) as archive:
            assert module in archive.namelist()


def test_an_archive_has_the_fresh_starter_whatever_stands_in_the_repository():
    files = make_archive(ROOT, ROOT)
    for lab in find_labs(ROOT):
        name = lab.starter.relative_to(ROOT).as_posix()
        fresh = lab.pristine_starter.read_text("utf-8")
        assert files[name].decode() == page_starter(fresh)


def test_a_pages_starters_speak_of_the_page_and_have_the_same_code():
    for lab, data in zip(find_labs(ROOT), labs_data(ROOT), strict=True):
        fresh = lab.pristine_starter.read_text("utf-8")
        assert not re.search(r"make (lab|hint)\b|README", data["starter"])
        assert ast.dump(ast.parse(data["starter"]).body[1]) == ast.dump(ast.parse(fresh).body[1])


@LONG
def test_a_run_tells_each_test_and_returns_report_and_progress(ask):
    asked = {"lab": "03", "files": {"03": RIGHT}, "progress": {}}
    [report], events = ask(("run", asked))
    assert (report["score"], report["most"], report["complete"]) == (100, 100, True)
    told = [event["name"] for event in events if event["event"] == "test"]
    assert told == [test.name for test in LAB.tests]
    record = report["progress"][LAB.name]
    assert record["solved"]
    assert record["score"] == 100
    assert report["header"]["hash"] in record["starter"]
    assert "100/100 points" in report["text"]


WRONG = (
    RIGHT
    + """
print("loaded")
_right = utf8_expected_len


def utf8_expected_len(first_byte):
    print("asked for", first_byte)
    if first_byte == 0xC0:
        print("x" * 30_000)
        raise KeyError(first_byte)
    return _right(first_byte)
"""
)


@LONG
def test_a_failure_has_its_line_and_a_task_runs_alone(ask):
    asked = {"lab": "03", "task": 1, "files": {"03": WRONG}, "progress": {}}
    [report], events = ask(("run", asked))
    assert not report["complete"]
    first = report["failures"][0]
    assert first["task"] == 1
    assert WRONG.splitlines()[first["line"] - 1].strip() == "raise KeyError(first_byte)"
    assert {"raised", "at", "printed"} <= {label["label"] for label in first["labels"]}
    ran = {test.name for test in LAB.tests if test.task == 1}
    assert {event["name"] for event in events if event["event"] == "test"} == ran
    printed = {event["name"]: event["text"] for event in events if event["event"] == "print"}
    assert len(printed) == len([event for event in events if event["event"] == "print"])
    assert all(text.count("loaded") <= 1 for text in printed.values())
    assert any("asked for" in text for text in printed.values())
    assert any(text.endswith(" characters more)\n") for text in printed.values())


@LONG
def test_a_trace_is_a_table_with_its_first_difference(ask):
    source = RIGHT.replace('errors="replace"', 'errors="ignore"').replace('"replace"', '"ignore"')
    assert source != RIGHT
    [report], _ = ask(("run", {"lab": "03", "files": {"03": source}, "progress": {}}))
    [trace] = [failure["trace"] for failure in report["failures"] if failure["trace"]][:1]
    assert trace["columns"][:2] == ["call", "emitted"]
    assert [row["mark"] for row in trace["rows"]].count(True) == 1
    assert all(len(row["cells"]) == len(trace["columns"]) for row in trace["rows"])


@LONG
def test_what_does_not_parse_waits_with_its_line(ask):
    [report], _ = ask(("run", {"lab": "03", "files": {"03": "x = (\n"}, "progress": {}}))
    assert report["line"] == 1
    assert "starter.py line 1 is not valid Python" in report["waiting"][0]
    assert report["failures"] == []


@LONG
def test_a_file_that_the_grader_does_not_read_waits_with_its_size(ask):
    source = RIGHT + "#" * MOST_SOURCE_BYTES
    [report], _ = ask(("run", {"lab": "03", "files": {"03": source}, "progress": {}}))
    size = f"{len(source.encode()):,} bytes, and the grader reads at most 65,536: hand in"
    assert f"starter.py has {size} your code only" in report["waiting"][0]
    assert report["failures"] == []


def _lab_with(root, source):
    """Return lab 03 in a folder of its own, with this starter."""
    folder = root / "phase" / "labs" / LAB.name
    folder.mkdir(parents=True)
    lab = replace(LAB, path=folder)
    lab.starter.write_text(source, "utf-8")
    return lab


@LONG
def test_a_bundle_is_that_of_the_terminal_and_is_read_again(ask, tmp_path):
    asked = {"lab": "03", "files": {"03": RIGHT}, "progress": {}, "student": "Ada"}
    [made], _ = ask(("bundle", asked))
    write_zip(tmp_path / "own.zip", make_bundle(_lab_with(tmp_path, RIGHT), [], tmp_path, "Ada"))
    assert base64.b64decode(made["zip"]) == (tmp_path / "own.zip").read_bytes()
    [read], _ = ask(("open", made | {"lab": "02"}))
    assert read == {"lab": "03", "files": {"03": RIGHT}}


# The files of a zip without a list of them, and the labs that a page of lab 02 takes from it.
ZIPS = [
    (["starter.py"], ["02"]),
    (["mine/starter.py"], ["02"]),
    ([f"labs/{lab.name}/starter.py" for lab in find_labs(ROOT)], ["02"]),
    ([f"labs/{LAB.name}/starter.py"], ["03"]),
]


@LONG
def test_a_zip_that_names_no_lab_or_several_is_of_the_pages_lab(ask, tmp_path):
    asked = []
    for names, _ in ZIPS:
        write_zip(tmp_path / "own.zip", dict.fromkeys(names, b"x = 1\n"))
        data = base64.b64encode((tmp_path / "own.zip").read_bytes()).decode()
        asked.append(("open", {"zip": data, "lab": "02"}))
    answers, _ = ask(*asked)
    expected = [{"lab": labs[0], "files": dict.fromkeys(labs, "x = 1\n")} for _, labs in ZIPS]
    assert answers == expected


@LONG
def test_a_plugin_is_that_of_the_terminal_if_the_code_passed(ask):
    lab = pick_lab(find_labs(ROOT), "01")
    source = lab.solution.read_text("utf-8")
    right = {"lab": "01", "files": {"01": source}}
    odd = {"lab": "01", "files": {"01": f"{source}import mini_vllm.text.events as events\n"}}
    [early, _, made, _, refused], _ = ask(
        ("plugin", right), ("run", right), ("plugin", right), ("run", odd), ("plugin", odd)
    )
    assert early["error"] == "your current code has not passed all tests: run it first"
    text = make_plugin(lab, source.encode(), "starter.py", "my_parser", ROOT)
    assert made == {"text": text, "name": "my_parser.py"}
    assert "cannot be copied into one file" in refused["error"]


@LONG
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("run", {"lab": "77"}), "there is no lab '77'"),
        (("open", {"zip": base64.b64encode(b"no zip").decode(), "lab": "02"}), "it is not a zip"),
        (("open", {"zip": "!", "lab": "02"}), "base64"),
    ],
)
def test_what_cannot_be_done_is_an_error_in_words(ask, asked, said):
    [answer], _ = ask(asked)
    assert said in answer["error"].replace("Only base64", "base64")


def test_labs_say_what_a_page_needs_before_there_is_python():
    labs = {lab["number"]: lab for lab in labs_data(ROOT)}
    assert [*labs] == [lab.number for lab in find_labs(ROOT)]
    hints = labs["03"]["hints"]
    numbers = [task["number"] for task in labs["03"]["tasks"]]
    assert [hint["task"] for hint in hints] == [number for number in numbers for _ in range(3)]
    assert "<code>C0</code>" in hints[0]["text_html"]
    assert "high-bits" in hints[0]["looks_like"]
    assert all("<script" not in json.dumps(lab) for lab in labs.values())
