"""`make demo` without a terminal."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def demo(*args):
    command = [sys.executable, "phase-16-serving-apis-and-parsers/demo.py", *args]
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "PYTHONUTF8": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_default_show_has_garbage_beside_right_text():
    out = demo().stdout
    naive, ours = (line for line in out.splitlines() if line.startswith(("naive ", "ours ")))
    assert "\ufffd" in naive
    assert "\ufffd" not in ours
    assert 'post({"text": "São 🎉"})' in out
    assert "finish  tool_calls" in out
    assert "\x1b" not in out


def test_file_in_another_script(tmp_path):
    file = tmp_path / "text"
    file.write_text("नमस्ते दुनिया। 終わり", encoding="utf-8")
    out = demo("--file", str(file), "--stop", "終").stdout
    assert "ours    'नमस्ते दुनिया। '" in out
    assert "finish  stop" in out


def test_a_starter_that_is_not_written_says_so(tmp_path):
    done = demo("--impl", "starter", "--text", "a")
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr


def test_mistakes_get_one_line(tmp_path):
    for args, said in (
        (["--file", str(tmp_path / "missing")], "No such file"),
        (["--speed", "0"], "more than 0"),
        (["--stop", ""], "empty"),
    ):
        done = demo(*args)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
