"""`make plugin`: a lab that passes becomes a file, another is refused with the missing points."""

import os
import subprocess
import sys

import pytest
from wrong_starters import FAILING, MADE, edited

from labkit.cli import main
from labkit.course.lab import ROOT, find_labs, pick_lab

SOURCE = pick_lab(find_labs(ROOT), "01").solution.read_text("utf-8")
# Each takes a run of the lab, so `make test` has a few; `make oracles` has all.
QUICK = ("a typo", "exit in feed", "an exception")
EDITS = FAILING | {name: edit for name, (edit, _) in MADE.items()}
CHOSEN = QUICK if os.environ.get("ORACLES") is None else EDITS


@pytest.mark.parametrize("name", CHOSEN)
def test_a_lab_is_made_into_a_file_or_refused(tmp_path, name):
    code, out = tmp_path / "starter.py", tmp_path / "my_parser.py"
    code.write_text(edited(SOURCE, EDITS[name]), encoding="utf-8")
    command = [sys.executable, "-m", "labkit", "plugin", "--lab", "01", "--impl", str(code),
               "--out", str(out)]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=100,
        stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout.startswith("Running the tests of lab-01 ...\n")
    if done.returncode == 0:
        assert name in MADE
        assert "as `my_parser` in vLLM and SGLang" in done.stdout
        compile(out.read_bytes(), "my_parser.py", "exec")
    else:
        assert done.returncode == 1
        assert not out.exists()
        assert "No plug-in: lab-01 has " in done.stdout
        assert "/100 points" in done.stdout
        assert "The first failing test is test_" in done.stdout
        assert "See all: make lab N=01" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lab", ""], "the labs with a plug-in are N=01, N=09"),
        (["--lab", "03"], "lab-03 has no plug-in; the labs with a plug-in are N=01, N=09"),
        (["--lab", "09", "--out", "my-parser.py"], "for example OUT=my_parser.py"),
        (["--lab", "09", "--out", "parser.txt"], "for example OUT=my_parser.py"),
        (["--lab", "09", "--out", "json.py"], "there is another module 'json'"),
        (["--lab", "09", "--out", "vllm.py"], "there is another module 'vllm'"),
        (["--lab", "09", "--out", "no/my_parser.py"], "there is no folder no"),
        (["--lab", "09", "--out", "other.py"], "was not written by `make plugin`"),
    ],
)
def test_an_unusable_lab_or_file_is_named(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text("work = 1\n")
    assert main(["plugin", *words]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "other.py").read_text() == "work = 1\n"
