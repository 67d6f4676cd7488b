"""What a student sees when a lab runs: verdicts, usage errors, broken and hostile code."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from labkit.course.lab import ROOT
from labkit.errors import LoadFailure
from labkit.running.source import check_imports

# Those that end at a limit, and what it is: what cannot be interrupted is waited for longest. A
# loop is seen by the time of its call, or by that of its test where the machine is slow.
LIMITS = {"loop at import": 0.3, "loop": 1, "deaf loop": 0.1}

EDITS = {
    "syntax": ("def feed(self, text: str) -> str:", "def feed(self, text: str -> str:"),
    "outside": ("class Pairs", "return\n\n\nclass Pairs"),
    "crash": ("class Pairs", "1 / 0\n\n\nclass Pairs"),
    "exit": ("class Pairs", "raise SystemExit(0)\n\n\nclass Pairs"),
    "loop at import": ("class Pairs", "while True:\n    pass\n\n\nclass Pairs"),
    "solution": ("class Pairs", "from solution import Pairs as P\n\n\nclass Pairs"),
    "importlib": ("class Pairs", "__import__('mini_vllm.tokenizer')\n\n\nclass Pairs"),
    "loop": ("text = self._held + text", "while True:\n            pass"),
    "deaf loop": (
        "text = self._held + text",
        "while True:\n            try:\n                while True:\n                    pass\n"
        "            except BaseException:\n                pass",
    ),
    "os._exit": ("text = self._held + text", "__import__('os')._exit(0)"),
    "crash in C": ("text = self._held + text", "__import__('ctypes').string_at(0)"),
    "thread": (
        "text = self._held + text",
        "import threading as t; t.Thread(target=t.Event().wait).start(); text = self._held + text",
    ),
    "raises": ("text = self._held + text", "return text[99]"),
    "subclass": ("return text[:even]", "return type('S', (str,), {})(text[:even])"),
    "none": ("return text[:even]", "pass"),
    "drops": ("return rest", "return '' and rest"),
}


@pytest.fixture
def student(tiny_lab):
    """Write the solution into starter.py with one edit: `student("crash")`."""

    def write(edit=None):
        text = tiny_lab.solution.read_text()
        if edit:
            find, replace = EDITS[edit]
            assert find in text
            text = text.replace(find, replace)
        tiny_lab.starter.write_text(text)

    return write


def test_pristine_starter_scores_zero_and_a_missing_one_can_be_had_again(run_pytest, tiny_lab):
    done = run_pytest("starter", "-q", LAB_SEED="7")
    assert done.returncode == 1
    assert "score       0/100" in done.stdout
    assert "BLOCKED by task 1" in done.stdout
    assert "wait for this: lab-90 task 1: feed is not written yet" in done.stdout
    assert "Traceback" not in done.stdout
    # The header names file, path and seed.
    assert "under test  starter.py" in done.stdout
    assert str(tiny_lab.starter) in done.stdout
    assert "seed 7" in done.stdout
    tiny_lab.starter.unlink()
    out = run_pytest("starter", "-q").stdout
    assert "`make reset` writes a fresh starter.py" in " ".join(out.split())


def test_unset_and_empty_mean_the_reference_and_say_so_loudly(run_pytest):
    for implementation in (None, "", "solution"):
        done = run_pytest(implementation, "-q")
        assert done.returncode == 0
        assert "UNDER TEST: THE REFERENCE" in done.stdout


def test_a_right_starter_scores_100_and_is_remembered(student, tiny, tiny_lab):
    """By the command that students type, in a process that knows nothing of this one."""
    student()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", tiny_lab.path, "-q"], cwd=tiny,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LAB_IMPL": "starter"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "100/100" in done.stdout
    progress = json.loads((tiny / ".labkit" / "progress.json").read_text())
    assert progress["lab-90-pairs"]["score"] == 100


def test_a_terminal_without_unicode_shows_a_report_of_many_lines(student, tiny, tiny_lab):
    student("drops")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", tiny_lab.path, "-q"], cwd=tiny,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "LAB_IMPL": "starter",
             "PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert r"  expected  ['', '\xe9']   \xe9=U+00E9" in done.stdout.splitlines()


def test_a_lab_runs_where_nothing_remembers_scores(run_pytest, student, tiny):
    student()
    (tiny / "conftest.py").write_text('pytest_plugins = ["labkit.running.plugin"]\n')
    assert "100/100" in run_pytest("starter", "-q").stdout
    assert not (tiny / ".labkit").exists()


def test_failure_shows_rule_call_expected_actual_trace_and_the_bug_it_looks_like(
    run_pytest, student
):
    student("drops")
    out = run_pytest("starter", "-q").stdout
    for part in ("rule      flush returns the odd one.", "call ", "expected  ['', 'é']   é=U+00E9",
                 "actual    ['', '']", "trace     call", "feed('é')",
                 "looks like: The last character is missing.", "make hint N=90 T=2"):  # fmt: skip
        assert part in out


@pytest.mark.parametrize(
    ("value", "parts", "said"),
    [
        ("nonsense", "", "use starter, solution, bug:NAME, or the path"),
        ("bug:nothing", "", "its bugs: triples, eager"),
        ("missing/file.py", "", "neither a known word nor a file"),
        ("starter", "mine", "LAB_PARTS='mine'"),
    ],
)
def test_a_wrong_lab_impl_or_lab_parts_is_a_usage_error(run_pytest, value, parts, said):
    done = run_pytest(value, "-q", **({"LAB_PARTS": parts} if parts else {}))
    assert done.returncode == 4
    assert said in done.stdout


def test_a_path_is_relative_to_the_current_folder(run_pytest, tiny, tiny_lab):
    (tiny / "mine").mkdir()
    shutil.copy(tiny_lab.solution, tiny / "mine/try.py")
    done = run_pytest("try.py", "-q", str(tiny_lab.path), cwd=tiny / "mine")
    assert done.returncode == 0, done.stdout
    assert "under test  try.py" in done.stdout or "(try.py)" in done.stdout


def test_bugs_and_paths_need_a_single_lab(run_pytest, tiny, tiny_lab):
    second = tiny_lab.path.with_name("lab-91-more")
    shutil.copytree(tiny_lab.path, second)
    for value in ("bug:triples", str(tiny_lab.solution)):
        done = run_pytest(value, "-q", str(tiny_lab.path), str(second))
        assert done.returncode == 4
        assert "2 labs are collected" in done.stdout


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ("syntax", "starter.py line 15 is not valid Python"),
        ("outside", "starter.py line 4 is not valid Python: 'return' outside function"),
        ("crash", "stopped at line 4 (`1 / 0`) while it was imported: ZeroDivisionError"),
        ("exit", "called exit at line 4"),
        ("loop at import", "was still running at line"),
        ("solution", "imports 'solution': a lab's code may import only the standard library"),
        ("importlib", "imports 'mini_vllm.tokenizer'"),
        ("loop", "; it was at line"),
        ("deaf loop", "could not be interrupted"),
        ("os._exit", "Python ended during test_pairs, before the report"),
        ("crash in C", "Python crashed during test_pairs, at line 17 of starter.py: segmentation"),
        ("thread", "A thread is still running, and is ended with the run"),
        ("raises", "IndexError: string index out of range"),
        ("subclass", "feed returned a S; return str, bytes"),
        ("none", "[None, None]"),
    ],
)
def test_broken_code_gets_a_message(run_pytest, student, edit, said):
    student(edit)
    done = run_pytest(
        "starter", "-q", *(["--lab-limit", str(LIMITS[edit])] if edit in LIMITS else [])
    )
    output = " ".join(done.stdout.split())
    assert said in output
    assert "site-packages" not in output
    assert "labkit/" not in output.replace(".labkit/", "")


def test_an_endless_loop_costs_the_later_tests_less(run_pytest, student, tiny, tmp_path):
    student("loop")
    # The limit of real time is far away, since a busy machine may give a loop very little of it.
    with (tiny / "conftest.py").open("a") as conftest:
        conftest.write("\nfrom labkit.running import platform\n\n")
        conftest.write("platform.REAL_TO_PROCESSOR = 600\nplatform._system_timers.cache_clear()\n")
    file = tmp_path / "results.json"
    run_pytest("starter", "-q", "--lab-results", str(file))
    (run,) = json.loads(file.read_text())
    late = [test["message"] for test in run["tests"].values() if test["kind"] == "timeout"]
    seconds = [re.search(r"after (\S+ s) of processor time", message)[1] for message in late]
    assert Counter(seconds) == {"1.5 s": 1, "0.5 s": len(late) - 1}
    assert len(late) > 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("x = 1\n".encode("utf-16"), "starter.py is saved as UTF-16: save it as UTF-8"),
        (b"x = 1\ny = 'a\0b'\n", "starter.py line 2 has a NUL character"),
        (b"# coding: utf-9\n", "starter.py is not valid Python: unknown encoding: utf-9"),
    ],
)
def test_a_file_that_is_no_text_is_named_as_what_it_is(data, said):
    with pytest.raises(LoadFailure, match=said):
        check_imports(data, "starter.py")


def test_a_lab_may_import_what_it_is_given():
    events = b"from mini_vllm.text.events import ToolCall\nfrom mini_vllm.text import events\n"
    check_imports(events, "starter.py", ["mini_vllm.text.events"])
    for given in ([], ["mini_vllm.text"], ["mini_vllm.engine"]):
        with pytest.raises(LoadFailure, match=r"starter.py line 1 imports 'mini_vllm.text.events'"):
            check_imports(events, "starter.py", given)


def test_the_watchdog_minds_labs_only(run_pytest, tiny, tiny_lab):
    # The watchdog waits for 0.6 seconds; the other test takes longer.
    tests = tiny_lab.test_file.read_text()
    tiny_lab.test_file.write_text(tests.replace("timeout(0.5)", "timeout(0.05)"))
    (tiny / "test_other.py").write_text("import time\n\ndef test_slow():\n    time.sleep(1)\n")
    done = run_pytest("starter", "-q", str(tiny_lab.path), "test_other.py")
    assert done.returncode == 1
    assert "7 failed, 2 passed" in done.stdout


def test_the_watchdog_does_not_count_the_time_in_which_the_machine_stands_still(
    run_pytest, student, tiny
):
    student()
    # Every time that the watchdog reads its clock, the machine has stood still for 1,000 s.
    with (tiny / "conftest.py").open("a") as conftest:
        conftest.write(
            "\nimport itertools, time, types, pytest\n"
            "from labkit.running.limits import watchdog\n\n"
            "clock = itertools.count(step=1000)\n"
            "watchdog.time = types.SimpleNamespace(monotonic=lambda: next(clock))\n\n"
            "@pytest.fixture(autouse=True)\n"
            "def two_looks():\n"
            "    time.sleep(2.5 * watchdog._LOOK_SECONDS)\n"
        )
    assert "100/100" in run_pytest("starter", "-q").stdout


def test_one_task_can_be_run_alone_and_then_there_is_no_score(run_pytest, student):
    student()
    out = run_pytest("starter", "-q", "-k", "test_pairs").stdout
    assert "score       shown for a full run only (7 tests not run)" in out
    out = run_pytest("starter", "-q", "--lab-task", "1").stdout
    assert "3 passed, 5 deselected" in out
    assert "not run" in out


def test_report_fits_88_columns_is_plain_without_a_terminal_and_equal_each_time(run_pytest):
    reports = []
    for bug in ("triples", "eager", "drops", "drops"):
        out = run_pytest(f"bug:{bug}", "-q").stdout
        report = out[out.index("task  ") :].splitlines()
        assert max(len(line) for line in report if "file" not in line) <= 88
        assert "\x1b" not in out
        reports.append(out.rpartition(" in ")[0])
    assert reports[-1] == reports[-2]


def test_results_file_has_no_times(run_pytest, tmp_path):
    file = tmp_path / "results.json"
    run_pytest("bug:keeps", "-q", "--lab-results", str(file))
    (run,) = json.loads(file.read_text())
    assert run["score"] == 85
    assert run["tests"]["test_flush_once"]["kind"] == "assertion"
    assert run["looks_like"] == "keeps"
    assert set(run) == {"lab", "implementation", "digest", "seed", "score", "looks_like", "tests"}
