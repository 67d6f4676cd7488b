"""`make pythons`: which mirror, what comes along, what counts as passed, and the README's table."""

import os

import pytest
import pythons
from chroot import HOME, Chroot, Unavailable, machine_paths
from mirror import find_mirror, mirrors_of

MAIN = ["http://deb.example/debian"]
LINES = """
# deb http://comment.example/debian bookworm main
deb-src http://sources.example/debian bookworm main
deb http://security.example/debian-security bookworm-security main
deb https://cloud.example/apt cloud-sdk-bookworm main
deb cdrom:[Debian]/ bookworm main
deb file:/srv/debian bookworm main
deb http://extra.example/debian bookworm contrib
deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] http://deb.example/debian/ bookworm main # here
deb http://deb.example/debian bookworm-updates main
"""
PARAGRAPHS = """
Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm
Components: main

Types: deb deb-src
# URIs: http://comment.example/debian
URIs: http://deb.example/debian/
 http://second.example/debian
Suites: bookworm bookworm-updates
Components: non-free
 main
"""
SECURITY = """Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main
"""
PAGE = """before

<!-- begin systems -->

| system | Python | tried on | `make test` |
|---|---|---|---|
| Debian 13 | 3.13.5 | 2020-01-01 | 1 passed |
| Debian sid | 3.14.0 | 2020-01-01 | 1 passed |

<!-- end systems -->

after
"""


@pytest.mark.parametrize(
    ("files", "mirrors"),
    [
        ({"sources.list": LINES}, MAIN),
        ({"sources.list.d/debian.list": LINES}, MAIN),
        ({"sources.list.d/debian.sources": PARAGRAPHS}, [*MAIN, "http://second.example/debian"]),
        ({"sources.list": "deb http://one.example/debian stable main\n",
          "sources.list.d/debian.list": LINES}, ["http://one.example/debian", *MAIN]),
        ({"sources.list.d/debian.sources": SECURITY}, []),
        ({"sources.list.d/debian.sources.save": PARAGRAPHS}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_the_mirror_is_that_of_the_main_archive(tmp_path, files, mirrors):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert mirrors_of(tmp_path, "bookworm") == mirrors


def test_a_mirror_that_does_not_answer_is_named(tmp_path, refused):
    with pytest.raises(Unavailable, match=r"name no mirror of Debian"):
        find_mirror("stable", tmp_path)
    (tmp_path / "sources.list").write_text(f"deb {refused} stable main\n")
    with pytest.raises(Unavailable, match=rf"no Debian stable at {refused}: .*refused"):
        find_mirror("stable", tmp_path)


@pytest.fixture
def refused():
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/debian"


def test_what_pip_names_comes_along(tmp_path):
    config = tmp_path / "config/pip"
    index, wheels, bundle = tmp_path / "pypi", tmp_path / "wheels", tmp_path / "bundle.pem"
    for folder in (config, index / "simple", wheels):
        folder.mkdir(parents=True)
    bundle.touch()
    text = f"[global]\nfind-links = {wheels} {tmp_path}/none\nno-color = {tmp_path}\n"
    (config / "pip.conf").write_text(
        text
        + f"[install]\nextra-index-url =\n  https://a.example/simple\n  file://{index}/simple\n"
    )
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    env |= {"SSL_CERT_FILE": str(bundle), "PIP_LOG": str(tmp_path), "http_proxy": "/nowhere"}
    paths = machine_paths(env)
    ours = {path: there for path, there in paths.items() if path.is_relative_to(tmp_path)}
    assert ours == {
        bundle: bundle, config: HOME / ".config/pip", index: index, wheels: wheels
    }  # fmt: skip
    paths = machine_paths({"HOME": str(tmp_path), "PIP_FIND_LINKS": f"{wheels} https://b.example"})
    assert paths[wheels] == wheels
    assert config not in paths


@pytest.mark.parametrize(
    ("code", "scores", "complaint"),
    [
        (1, [0, 0], ""),
        (0, [0, 0], "exit code 0, not 1"),
        (1, [0, 100], "score 0, 100;"),
        (1, [0], "each of 2 has to score 0"),
    ],
)
def test_a_step_passes_by_exit_code_and_scores(code, scores, complaint):
    output = "".join(f"{n:02} A lab   {score}/100   passed\n" for n, score in enumerate(scores))
    step = pythons.Step("starters", "", 1, 0)
    assert complaint in step.complaint(code, output, 2)
    assert bool(step.complaint(code, output, 2)) == bool(complaint)


def test_a_row_is_written_and_the_others_stay():
    page = pythons.with_row(PAGE, ("Debian 13", "3.13.6", "2020-02-02", "2 passed"))
    assert page == PAGE.replace("3.13.5 | 2020-01-01 | 1 passed", "3.13.6 | 2020-02-02 | 2 passed")
    page = pythons.with_row(page, ("Debian 12", "3.11.2", "2020-02-02", "2 passed"))
    assert page.index("Debian 12") < page.index("Debian 13") < page.index("Debian sid")
    with pytest.raises(SystemExit, match="begin systems"):
        pythons.with_row("", ("Debian 13",))


class Machine:
    """A chroot in which nothing runs: each command has an exit code and an output."""

    def __init__(self, codes):
        self.codes = codes
        self.commands = []

    def call(self, chroot, script):
        self.commands.append(script)
        if "python_version" in script:
            return 0, "3.13.9\n"
        scores = {"starter": 0, "bare/bin/pytest": 100}
        score = next((scores[word] for word in scores if word in script), None)
        labs = len(list(pythons.ROOT.glob("phase-*/labs/lab-*/course/lab.toml")))
        output = (
            f"01 A lab  {score}/100  passed\n" * labs + "7 passed, 1 skipped, 2 warnings in 3.00s\n"
        )
        return next((code for word, code in self.codes.items() if word in script), 0), output


@pytest.mark.parametrize(
    ("quick", "codes", "is_written"),
    [
        (False, {"LAB_IMPL=starter": 1}, True),
        (True, {"LAB_IMPL=starter": 1}, False),
        (False, {"LAB_IMPL=starter": 1, "make test": 2}, False),
        (False, {"LAB_IMPL=starter": 0}, False),
        (False, {"bootstrap": 1}, False),
    ],
)
def test_a_row_is_written_only_if_all_passed(tmp_path, monkeypatch, quick, codes, is_written):
    machine = Machine(codes)
    (tmp_path / "README.md").write_text(PAGE)
    monkeypatch.setattr(pythons, "ROOT", tmp_path)
    monkeypatch.setattr(pythons, "prepare", lambda *_: None)
    monkeypatch.setattr(pythons, "put_tree", lambda *_: None)
    monkeypatch.setattr(Chroot, "call", lambda chroot, script: machine.call(chroot, script))
    monkeypatch.setattr(Chroot, "system", "Debian 13")
    passed = pythons.try_system("stable", tmp_path / "stable", quick)
    assert passed == (codes == {"LAB_IMPL=starter": 1})
    assert ("| 7 passed, 1 skipped |" in (tmp_path / "README.md").read_text()) == is_written
    assert is_written or (tmp_path / "README.md").read_text() == PAGE
    assert (
        passed == (len(machine.commands) == 1 + len(pythons.steps(quick)))
        or "bootstrap" not in codes
    )


@pytest.mark.parametrize(
    ("root", "programs", "reason"),
    [
        (False, True, "it needs root"),
        (True, False, "debootstrap is not installed: apt install debootstrap"),
    ],
)
def test_what_cannot_run_is_skipped_in_a_line(
    tmp_path, monkeypatch, capsys, root, programs, reason
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    monkeypatch.setattr(pythons.shutil, "which", lambda name: name if programs else None)
    monkeypatch.setattr(pythons.sys, "platform", "linux")
    monkeypatch.setattr(pythons, "try_system", None)
    monkeypatch.setattr(pythons.sys, "argv", ["pythons.py"])
    assert pythons.main() == 0
    assert capsys.readouterr().out == f"SKIPPED make pythons: {reason}\n"


@pytest.mark.parametrize(
    ("name", "programs", "browser", "is_enough"),
    [
        ("stable", (), False, True),
        ("stable", ("chromium",), True, False),
        ("stable", ("chromium", "chromedriver"), True, True),
        ("stable.half", ("chromium", "chromedriver"), False, False),
    ],
)
def test_without_a_mirror_a_whole_chroot_is_used(
    tmp_path, monkeypatch, capsys, name, programs, browser, is_enough
):
    def no_mirror(suite):
        raise Unavailable("no mirror answers")

    monkeypatch.setattr(pythons, "find_mirror", no_mirror)
    for path in ("usr/lib/os-release", *(f"usr/bin/{program}" for program in programs)):
        (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / path).write_text('VERSION_ID="13"\n')
    chroot = Chroot(tmp_path / "stable", tmp_path / "log")
    if is_enough:
        pythons.prepare(chroot, "stable", browser)
        assert "packages of last time: no mirror answers" in capsys.readouterr().out
    else:
        with pytest.raises(Unavailable, match="no mirror answers"):
            pythons.prepare(chroot, "stable", browser)
