"""`make demo` without a terminal."""

import subprocess
import sys

import pytest

from labkit.cli import main
from labkit.course.lab import ROOT
from labkit.serving.composed import find_composed
from labkit.student.progress import Progress

LAB = find_composed(ROOT, "solution").lab


@pytest.fixture
def demo(capsys, monkeypatch):
    """Run the show: `demo("--text", "a")` returns its exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("LAB_TRACK", "core")

    def show(*args):
        with pytest.raises(SystemExit) as stopped:
            main(["demo", *args])
        return stopped.value.code, *capsys.readouterr()

    return show


def test_default_show_has_garbage_beside_right_text():
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "demo"], cwd=ROOT, env={"PATH": "", "PYTHONUTF8": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    out = done.stdout
    naive, ours = (line for line in out.splitlines() if line.startswith(("naive ", "ours ")))
    assert "\ufffd" in naive
    assert "\ufffd" not in ours
    assert 'post({"text": "São 🎉"})' in out
    assert "finish  tool_calls" in out
    assert "\x1b" not in out


def test_file_in_another_script(demo, tmp_path):
    (tmp_path / "text").write_text("नमस्ते दुनिया। 終わり", encoding="utf-8")
    _, out, _ = demo("--file", str(tmp_path / "text"), "--stop", "終")
    assert "ours    'नमस्ते दुनिया। '" in out
    assert "finish  stop" in out


def test_it_says_whose_code_runs_and_where_that_goes_wrong(demo, tmp_path):
    broken = tmp_path / "mine.py"
    broken.write_text("class ServingPipeline:\n    def __init__(self, *a, **b): self.held = {}\n")
    for implementation, whose, said in (
        ("bug:eos-no-flush", "solution.py with bug 'eos-no-flush' of lab-05", ""),
        ("solution", "StopStringMatcher: the reference, lab-04-stop-strings/solution.py", ""),
        (str(LAB.pristine_starter), "starter.py.orig", "lab-05 task 1: feed is still to do. Go on"),
        (str(broken), "mine.py of lab-05", "raised AttributeError"),
        ("nonsense", "", "LAB_IMPL='nonsense' is neither"),
    ):
        code, out, errors = demo("--impl", implementation, "--text", "a")
        assert whose in out.partition("\n\n")[0]
        assert said in errors
        assert code == (2 if said else 0)
        assert "Traceback" not in errors
        assert ("emitted" in out) == (not said)


def test_a_known_bug_of_any_layer_can_be_seen(demo):
    _, out, _ = demo("--impl", "bug:decode-alone", "--text", "🚀 <tool_call>")
    assert "Text path: solution.py of lab-05" in out
    assert "solution.py with bug 'decode-alone'" in out
    assert "ours    '\ufffd\ufffd\ufffd\ufffd <tool_call>'" in out
    assert out.count("with bug") == 1


def test_without_a_word_it_shows_ones_own_code_once_that_passes(demo, monkeypatch):
    for name in ("LAB_IMPL", "LAB_PARTS"):
        monkeypatch.delenv(name, raising=False)
    for passes, whose in ((False, "solution.py"), (True, "starter.py")):
        monkeypatch.setattr(Progress, "passes", lambda *_, passes=passes: passes)
        _, out, _ = demo("--text", "a")
        assert out.startswith(f"Text path: {whose} of lab-05")
        assert out.count(f"/{whose}\n") == 3


def test_the_advanced_show_is_on_a_real_vocabulary(demo):
    text = '<think>hm</think>ok 🚀 <tool_call>{"name": "f", "arguments": {}}</tool_call> END'
    _, out, _ = demo("--impl", "solution", "--track", "advanced", "--text", text)
    assert "tokens     TokenDetokenizer: the reference, lab-07" in out
    head, *rows = out.split("\n\n")[1].splitlines()
    assert head.split("  ")[0] == "token"
    assert "bytes" in head
    assert "reasoning held" in head
    assert len(rows) < len(text.encode()) / 2
    assert "f0 9f 9a 80" in " ".join(" ".join(row.split()) for row in rows)
    assert "thinks  'hm'\nours    'ok 🚀  '\ncall    f({})\nfinish  tool_calls\n" in out
    _, bytewise, _ = demo(
        "--impl", "solution", "--track", "advanced", "--text", text, "--tokenizer", "byte"
    )
    assert bytewise.partition("\nthinks")[2] == out.partition("\nthinks")[2]


def test_without_a_word_a_lab_that_reads_any_vocabulary_changes_the_show(demo, monkeypatch):
    for name in ("LAB_IMPL", "LAB_PARTS", "LAB_TRACK"):
        monkeypatch.delenv(name, raising=False)
    _, out, _ = demo("--text", "a")
    assert "tokens     StreamingDetokenizer: the reference" in out


def test_mistakes_get_one_line(demo, tmp_path):
    for args, said in (
        (["--file", str(tmp_path / "missing")], "No such file"),
        (["--speed", "0"], "more than 0"),
        (["--stop", ""], "empty"),
        (["--track", "other"], "invalid choice: 'other'"),
        (["--tokenizer", "no.json"], "no.json"),
        (["--tokenizer", "mock"], "for ids that are bytes"),
        (["--tokenizer", "mock", "--track", "advanced"], "rewrites across ids"),
    ):
        code, _, errors = demo(*args)
        assert code == 2
        assert said in errors
        assert "Traceback" not in errors
        assert "not ready" not in errors, "it is not the lab that is wrong"
