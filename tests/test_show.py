"""`make show` opens each kind of failure at the step that shows the fault."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from browser import open_browser
from jsonschema import Draft202012Validator
from selenium.webdriver.common.keys import Keys

from labkit.cli import main
from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.running.recording.recording import Recording
from labkit.student.keyboard import raw_keys

SCHEMA = Draft202012Validator(
    json.loads((ROOT / "labkit/running/recording/recording.schema.json").read_text("utf-8"))
)

# The lab, the test, an edit of the solution, the kind, the code of the step that opens, and a part
# of the reason.
KINDS = [
    ("03", "test_emoji_is_held_until_complete", "len(self._held) == length", "False",
     "difference", "return broken", "feed returns ''"),
    ("02", "test_decode_replaces_by_maximal_subpart",
     'return "".join(texts) + run.decode("utf-8", "replace")',
     'import codecs, sys\n'
     '        shared = sys.modules.setdefault("of all objects", '
     'codecs.getincrementaldecoder("utf-8")("replace"))\n'
     '        return "".join(texts) + shared.decode(bytes(run))',
     "difference", "return", "in the test, after other calls: an attribute of the class"),
    ("02", "test_decode_starts_afresh",
     'return "".join(texts) + run.decode("utf-8", "replace")',
     'return "".join(texts) + run.decode("utf-8", "ignore")',
     "difference", 'return "".join(texts)', "decode returns '', and the test fails"),
    ("03", "test_flush_handles_truncated_sequence", "length = utf8_expected_len(self._held[0])",
     "length = {}[self._held[0]]", "exception", "length = {}", "raised KeyError: "),
    ("03", "test_emoji_is_held_until_complete", '        broken = ""\n',
     '        broken = ""\n        if token_id == 0x9A:\n            import os; os._exit(0)\n',
     "exception", "os._exit(0)", "of feed ended Python"),
    ("03", "test_emoji_is_held_until_complete", '        broken = ""\n',
     '        broken = ""\n        from itertools import count\n        sum(count())\n',
     "loop", "sum(count())", "of feed did not end and could not be interrupted"),
    ("03", "test_emoji_is_held_until_complete", '        broken = ""\n',
     '        broken = ""\n        while not broken:\n            broken = ""\n',
     "loop", "while not broken:", "values (self._held, token_id, broken) return, "),
    ("01", "test_malformed_call_is_text", "                    events.append(self._close())\n",
     "                    events.append(self._close())\n"
     "                    if isinstance(events[-1], TextDelta):\n"
     '                        events.append(ToolCall(0, "x", "{}"))\n',
     "difference", 'events.append(ToolCall(0, "x", "{}"))', "the first wrong item of the list"),
    ("10", "test_reader_gets_every_chunk", "            parts = self._waiting.popleft()\n",
     "            parts = self._waiting.popleft()\n"
     '            self.__dict__.setdefault("_old", []).append(parts)\n',
     "cost", "", "times, more than any other"),
    ("10", "test_two_threads_at_once",
     '        with self._lock:\n            if self._state != "open":\n'
     "                return False\n"
     "            self._state = state\n",
     '        is_open = self._state == "open"\n        with self._lock:\n'
     "            if not is_open:\n                return False\n            self._state = state\n",
     "race", "", "now another thread runs, from line"),
    ("10", "test_chunks_come_in_order", "        if chunk.finish_reason is not None:\n",
     "        self._lock.acquire()\n        if chunk.finish_reason is not None:\n",
     "waiting", "with self._lock:", "the code waits forever: line"),
]  # fmt: skip


def show(number, test, source, tmp_path, *options, **env):
    """Run `labkit show` on a source; return its exit code, its output and the recording."""
    code, target = tmp_path / "code.py", tmp_path / "recording.json"
    code.write_text(source, encoding="utf-8")
    words = ["--lab", number, "--test", test, "--impl", str(code), *options]
    words += [] if options else ["--json", str(target)]
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "show", *words], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "LAB_PARTS": "reference", "COLUMNS": "100", **env},
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    data = json.loads(target.read_text("utf-8")) if target.exists() else None
    return done.returncode, done.stdout + done.stderr, data


def edited(number, find, replace):
    """Return the solution of a lab with an edit."""
    source = pick_lab(find_labs(ROOT), number).solution.read_text("utf-8")
    assert source.count(find) == 1
    return source.replace(find, replace)


@pytest.mark.parametrize(
    ("number", "test", "find", "replace", "kind", "line", "why"),
    KINDS,
    ids=[f"{k[4]} {k[6]}" for k in KINDS],
)
def test_opens_at_the_fault(number, test, find, replace, kind, line, why, tmp_path):
    """Each kind of failure opens at the line that shows it, and the recording fits its schema."""
    # A loop spends its whole limit; the limit of a course's tests is another test's matter.
    env = {"PYTEST_ADDOPTS": "--lab-limit=1"} if kind == "loop" else {}
    code, output, data = show(number, test, edited(number, find, replace), tmp_path, **env)
    assert code == 0, output
    step = data["steps"][data["opens"]]
    assert data["kind"] == kind, data["why"]
    assert data["test"] == test
    assert line in data["source"][step["line"] - 1]
    assert why in data["why"]
    assert [*SCHEMA.iter_errors(data)] == []


NOTED_LIMITS = """
import sys
from labkit.cli import main
from labkit.running.limits.of_session import Limits
begin = Limits.begin
def noted(limits, test, seconds):
    print(f"{test} may use {seconds} s", file=sys.__stderr__)
    begin(limits, test, seconds)
Limits.begin = noted
sys.exit(main(sys.argv[1:]))
"""


def test_the_runs_after_a_failure_have_a_limit_of_their_own(tmp_path):
    """A test that fails near the end of its own limit is not taken for one that never ends."""
    (tmp_path / "code.py").write_text(edited("03", "len(self._held) == length", "False"))
    words = ["show", "--lab", "03", "--test", KINDS[0][1], "--impl", str(tmp_path / "code.py")]
    done = subprocess.run(
        [sys.executable, "-c", NOTED_LIMITS, *words], cwd=ROOT, capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    limits = [line for line in done.stderr.splitlines() if line.startswith(KINDS[0][1])]
    assert limits == [f"{KINDS[0][1]} may use {seconds} s" for seconds in (5.0, 20.0)]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("os.write(number, b'text' * 99)", "wrote into the pipe of its recording"),
        ("os.close(number)", "ended Python"),
    ],
)
def test_code_that_disturbs_open_files_ends_in_one_line(act, words, tmp_path):
    """The pipe to the process that shows the steps is one of them."""
    lines = [
        "import os",
        "for number in range(3, 40):",
        f"    try: {act}",
        "    except OSError: pass",
    ]
    faulty = "".join(f"        {line}\n" for line in ['broken = ""', *lines])
    source = edited("03", '        broken = ""\n', faulty)
    code, output, data = show("03", "test_emoji_is_held_until_complete", source, tmp_path)
    assert (code, data) == (1, None), output
    assert f"the code of code.py {words}" in output
    assert "Traceback" not in output


def test_page_walks_without_a_network(tmp_path):
    """The page opens at the fault, keys and the slider move it, and it loads nothing else."""
    source = edited("03", "len(self._held) == length", "False")
    source = source.replace('        broken = ""\n', '        broken = "" # </script><img src=x>\n')
    page = tmp_path / "page.html"
    code, output, _ = show("03", KINDS[0][1], source, tmp_path, "--html", str(page))
    assert code == 0, output
    with open_browser() as driver:
        driver.get_log("performance")
        driver.get(page.as_uri())

        def event():
            return driver.find_element("css selector", ".steps .event").text

        def press(key):
            driver.find_element("tag name", "body").send_keys(key)

        opening = event()
        assert "in feed: line 100 returns ''" in opening
        assert driver.find_element("css selector", ".code .here").text.startswith("100")
        press(Keys.ARROW_LEFT)
        assert "in feed: line 100 runs" in event()
        press(Keys.ARROW_UP)
        assert "in utf8_expected_len: line 40 returns 4" in event()
        press("p")
        assert event().startswith("Step 36 of 71")
        driver.find_element("css selector", "[data-key=o]").click()
        assert event() == opening
        slider = driver.find_element("css selector", ".steps input")
        slider.send_keys(Keys.HOME)
        assert event().startswith("Step 1 of 71")
        requests = [json.loads(row["message"])["message"] for row in driver.get_log("performance")]
        urls = {
            row["params"]["request"]["url"]
            for row in requests
            if row["method"] == "Network.requestWillBeSent"
        }
        assert urls == {page.as_uri()}


def test_prints_the_steps_without_a_terminal(tmp_path):
    """Without a terminal, the steps around the fault are printed, with what the code printed."""
    source = edited("03", "len(self._held) == length", "print(length) or False")
    code, output, _ = show("03", KINDS[0][1], source, tmp_path, "--task", "2")
    assert code == 0, output
    assert "made      StreamingDetokenizer()" in output
    assert "opens at  line 100: feed returns ''" in output
    assert "> 100  return broken" in output
    assert "_held: b'\\xf0\\x9f\\x9a' →" in output
    assert "(new) → 4" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lab", "12"], "lab-12 is a hunt"),
        (["--lab", "03", "--test", "test_x"], "lab-03 has no test 'test_x'; it has test_utf8_"),
        (["--lab", "03", "--task", "9"], "lab-03 has no task '9'; it has T=1"),
        (["--lab", "03", "--html", "no/x.html"], "no/x.html: there is no folder no; make it first"),
        (["--lab", "03", "--json", "/"], "/ is a folder; name a file"),
    ],
)
def test_refuses_an_unknown_case(words, message, capsys):
    """A lab, a task or a test that cannot be shown gets one line that names it."""
    assert main(["show", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_says_that_slow_code_takes_time(is_terminal, monkeypatch, capsys):
    """Code that is too slow runs up to its limits, three times."""
    monkeypatch.setattr("labkit.student.show.record_apart", lambda *_: (1, "nothing"))
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    assert main(["show", "--lab", "03"]) == 1
    said = capsys.readouterr()
    assert said.out == "nothing\n"
    assert ("lab-03: running the tests up to" in said.err) == is_terminal


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has such a file")
@pytest.mark.parametrize("option", ["--html", "--json"])
def test_says_why_a_file_cannot_be_written(option, monkeypatch, capsys):
    recording = Recording("nothing", "no steps")
    monkeypatch.setattr("labkit.student.show.record_apart", lambda *_: recording)
    assert main(["show", "--lab", "03", option, "/dev/full"]) == 2
    assert "labkit: /dev/full: No space left on device; write" in capsys.readouterr().err


def test_refuses_an_unknown_implementation():
    """A value that `LAB_IMPL` may not have is a usage error, as for `make lab`."""
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "show", "--lab", "03", "--impl", "bug:x"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "has no such bug" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_the_keys(capsys):
    """`show --help` has the keys and commands to copy."""
    with pytest.raises(SystemExit):
        main(["show", "--help"])
    text = capsys.readouterr().out
    assert "left, right  one line back or on" in text
    assert "make show N=03 ARGS='--html steps.html'" in text


def test_a_source_that_is_not_python_shows_its_line(tmp_path):
    """The message of a syntax error ends before the next sentence begins."""
    code, output, data = show("03", KINDS[0][1], "def feed(:\n", tmp_path)
    assert (code, data) == (1, None)
    assert "code.py line 1 is not valid Python" in output
    assert output.endswith("^\nSee all: make lab N=03\n")


def test_another_size_of_the_terminal_arrives_among_the_keys(monkeypatch):
    ours, theirs = os.openpty()
    monkeypatch.setattr(sys, "stdin", os.fdopen(theirs, "r"))
    handler = signal.getsignal(signal.SIGWINCH)
    with raw_keys() as keys:
        # Many sizes, as when a window is drawn larger, are one key.
        for _ in range(3):
            signal.raise_signal(signal.SIGWINCH)
        assert next(keys) == "resize"
        os.write(ours, b"\x1b[C")
        assert next(keys) == "right"
    assert signal.getsignal(signal.SIGWINCH) is handler
    assert signal.set_wakeup_fd(-1) == -1
    os.close(ours)
