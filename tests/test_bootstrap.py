"""The set-up before anything is installed. The network is not used: pip is replaced by a stub."""

import ast
import importlib.util
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "labkit" / "student" / "bootstrap.py"
CONFTEST = ROOT / "conftest.py"


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The module, at work in an empty repository; calls that it makes are noted, not made."""
    spec = importlib.util.spec_from_file_location("bootstrap_under_test", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "core.txt").write_text("one")
    venv = tmp_path / ".venv"
    for name, value in (("ROOT", tmp_path), ("VENV", venv), ("PYTHON", venv / "bin" / "python"),
                        ("UNFINISHED", venv / ".unfinished")):  # fmt: skip
        monkeypatch.setattr(module, name, str(value))
    module.calls, module.fail_on = [], None

    def call(command, **kwargs):
        words = " ".join(map(str, command))
        kind = "venv" if "-m venv" in words else "pip" if "pip install" in words else "check"
        module.calls.append(kind)
        if module.fail_on == kind:
            if module.fail_on == "pip":
                raise KeyboardInterrupt
            return 1
        if kind == "venv":
            (venv / "bin").mkdir()
            (venv / "bin" / "python").write_text("")
        return 0

    monkeypatch.setattr(module.subprocess, "call", call)
    monkeypatch.setattr(module.subprocess, "check_output", lambda command: f"{venv}\n".encode())
    return module


def test_first_call_installs_second_does_nothing_and_a_changed_lock_file_installs_again(bootstrap):
    for _ in range(2):
        assert bootstrap.main("core") == 0
        assert bootstrap.calls == ["check", "venv", "pip"]
    Path(bootstrap.ROOT, "requirements", "core.txt").write_text("two")
    bootstrap.main("core")
    assert bootstrap.calls == ["check", "venv", "pip", "pip"]


def test_a_killed_set_up_starts_afresh(bootstrap):
    bootstrap.fail_on = "pip"
    with pytest.raises(KeyboardInterrupt):
        bootstrap.main("core")
    bootstrap.fail_on = None
    Path(bootstrap.VENV, "half-written").write_text("")
    assert bootstrap.main("core") == 0
    assert not Path(bootstrap.VENV, "half-written").exists()
    # So does a vanished interpreter.
    os.remove(bootstrap.PYTHON)
    assert bootstrap.main("core") == 0
    assert bootstrap.calls[-3:] == ["check", "venv", "pip"]


def test_missing_venv_module_or_old_python_says_what_to_install(bootstrap, monkeypatch, capsys):
    bootstrap.fail_on = "check"
    assert bootstrap.main("core") == 1
    assert "apt install python3." in capsys.readouterr().out
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 6))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    assert bootstrap.main("core") == 1
    out = capsys.readouterr().out
    assert "needs Python 3.11 or newer" in out
    assert "is 3.9." in out


def test_old_python_hands_over_to_a_newer_one(tmp_path):
    newer = tmp_path / "python3.12"
    newer.write_text("#!/bin/sh\necho handed over: $@\n")
    newer.chmod(newer.stat().st_mode | stat.S_IXUSR)
    code = (
        f"import sys, runpy; sys.version_info = (3, 9, 6); sys.argv = ['{SOURCE}', 'core'];"
        f"runpy.run_path('{SOURCE}', run_name='__main__')"
    )
    env = {"PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip().endswith("core")
    assert "handed over: -I" in done.stdout


def test_it_parses_on_old_pythons():
    compile(SOURCE.read_text(), str(SOURCE), "exec", dont_inherit=True)
    ast.parse(SOURCE.read_text(), feature_version=(3, 7))
    ast.parse(CONFTEST.read_text(), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("module", "name", "value", "said"),
    [
        (pytest, "__version__", "8.3.5", "need pytest 9 or newer, this is 8.3.5"),
        (sys, "version_info", (3, 9, 6, "final", 0), "need Python 3.11 or newer, this is 3.9"),
        (importlib.util, "find_spec", lambda name: None, "the package rich is not installed"),
    ],
)
def test_outside_of_the_environment_one_line_says_what_to_do(
    monkeypatch, capsys, module, name, value, said
):
    monkeypatch.setattr(warnings, "warn", warnings.warn)
    code = compile(CONFTEST.read_text(), str(CONFTEST), "exec")
    monkeypatch.setattr(module, name, value)
    with pytest.raises(SystemExit, match="4"):
        exec(code, {"__file__": str(CONFTEST)})
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert "source .venv/bin/activate" in line or "make lab" in line
