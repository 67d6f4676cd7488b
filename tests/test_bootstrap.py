"""The set-up before anything is installed. The network is not used: pip is replaced by a stub."""

import ast
import hashlib
import importlib.util
import os
import runpy
import shutil
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
    purelib = venv / "lib/python3.99/site-packages"
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
            purelib.mkdir(parents=True)
            (venv / "bin" / "python").write_text("")
        return 0

    monkeypatch.setattr(module.subprocess, "call", call)
    monkeypatch.setattr(module.subprocess, "check_output", lambda command: f"{purelib}\n".encode())
    return module


def test_first_call_installs_second_does_nothing_and_a_changed_lock_file_installs_again(bootstrap):
    for _ in range(2):
        assert bootstrap.main("core") == 0
        assert bootstrap.calls == ["check", "venv", "pip"]
    Path(bootstrap.ROOT, "requirements", "core.txt").write_text("two")
    bootstrap.main("core")
    assert bootstrap.calls == ["check", "venv", "pip", "pip"]


def test_ctrl_c_ends_a_set_up_without_a_traceback(monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hashlib.sha256", interrupt)
    monkeypatch.setattr("sys.argv", ["bootstrap.py", "core"])
    with pytest.raises(SystemExit) as ending:
        runpy.run_path(str(SOURCE), run_name="__main__")
    assert ending.value.code == 130
    assert capsys.readouterr().err == ""


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


@pytest.fixture
def course(tmp_path):
    """A folder with a real `.venv`, in which pip has installed a script."""
    folder = tmp_path / "course"
    for path in ("labkit/student", "requirements"):
        (folder / path).mkdir(parents=True)
    shutil.copy(SOURCE, folder / "labkit/student")
    (folder / "labkit/__init__.py").write_text("")
    (folder / "requirements/core.txt").write_text("one")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True)
    (purelib,) = folder.glob(".venv/lib/python3*/site-packages")
    line = f"import sys; sys.path.append({str(folder)!a})\n"
    (purelib / "mini_vllm_labs.pth").write_text(line)
    script = folder / ".venv/bin/pytest"
    script.write_text(f"#!{folder}/.venv/bin/python\nimport labkit; print(labkit.__file__)\n")
    script.chmod(0o755)
    (folder / f".venv/.installed-core-{hashlib.sha256(b'one').hexdigest()[:16]}").touch()
    return folder


def set_up(folder):
    command = [sys.executable, "-I", "labkit/student/bootstrap.py", "core"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def runs(folder):
    """Return the labkit that runs: with `.venv`'s Python, its script, and after `activate`."""
    code = "import labkit; print(labkit.__file__)"
    python = [folder / ".venv/bin/python", "-P", "-c", code]
    activated = ["sh", "-c", '. .venv/bin/activate && pytest && cd "$VIRTUAL_ENV" && pwd']
    env = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "utf-8"}
    out = [
        subprocess.check_output(command, cwd=folder, env=env, encoding="utf-8").splitlines()
        for command in (python, [folder / ".venv/bin/pytest"], activated)
    ]
    return [Path(line) for lines in out for line in lines]


def test_a_copied_or_moved_folder_runs_its_own_code(course, tmp_path):
    copy, moved = tmp_path / "a cöpy's", tmp_path / "moved"
    assert set_up(course) == []
    shutil.copytree(course, copy, symlinks=True)
    for folder in (copy, moved):
        if folder == moved:
            copy.rename(moved)
        (line,) = set_up(folder)
        assert line.startswith("This folder was copied or moved")
        assert set_up(folder) == []
        assert runs(folder) == [folder / "labkit/__init__.py"] * 3 + [folder / ".venv"]
    assert set_up(course) == []
    assert runs(course) == [course / "labkit/__init__.py"] * 3 + [course / ".venv"]


def test_a_venv_that_cannot_be_changed_is_set_up_anew(bootstrap, tmp_path, capsys):
    purelib = tmp_path / ".venv/lib/python3.99/site-packages"
    bootstrap.main("core")
    elsewhere = "import sys; sys.path.append('/elsewhere')\n"
    # Another machine may have another Python.
    purelib.parent.rename(purelib.parents[1] / "python3.98")
    (purelib.parents[1] / "python3.98/site-packages/mini_vllm_labs.pth").write_text(elsewhere)
    capsys.readouterr()
    assert bootstrap.main("core") == 0
    assert bootstrap.calls == ["check", "venv", "pip"] * 2
    assert capsys.readouterr().out.splitlines()[1].startswith("Setting up .venv")
    # A link may lead to a `.venv` that is in use elsewhere.
    shared = tmp_path / "shared"
    (tmp_path / ".venv").rename(shared)
    (tmp_path / ".venv").symlink_to(shared)
    path_file = shared / purelib.relative_to(tmp_path / ".venv") / "mini_vllm_labs.pth"
    path_file.write_text(elsewhere)
    assert bootstrap.main("core") == 0
    assert bootstrap.calls == ["check", "venv", "pip"] * 3
    assert not (tmp_path / ".venv").is_symlink()
    assert path_file.read_text() == elsewhere


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
