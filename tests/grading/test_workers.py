"""How workers start and end: each as a user of its own, none after its grader."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from labkit.course.lab import ROOT
from labkit.errors import InfrastructureError, UsageError
from labkit.isolation import bubblewrap, sandbox, users
from labkit.isolation import mode as mode_module
from labkit.isolation.library import Library, python_library
from labkit.isolation.mode import choose_mode, refuse_if_visible
from labkit.isolation.sandbox import Sandbox
from labkit.running.limits.time_limit import processor_seconds


def users_of(process):
    status = Path(f"/proc/{process}/status").read_text()
    return {*map(int, re.search(r"^Uid:(.*)", status, re.M)[1].split())}


@pytest.fixture
def start(walled, sandbox_in):
    """Start a worker in each mode: `start()`."""
    if os.geteuid() != 0:
        pytest.skip("only root's workers change their user")
    made = []

    def start():
        made.append(sandbox_in(walled).start())
        return made[-1]

    yield start
    for one in made:
        one.stop()


def test_two_at_once_are_two_users(start):
    first, second = start(), start()
    assert users_of(first.number) == {first.user}
    assert users_of(second.number) == {second.user}
    assert first.user != second.user


def test_a_user_with_processes_is_left_alone(start, monkeypatch):
    first = start()
    free = [user for user in users.free_users() if user != first.user]
    monkeypatch.setattr(users, "free_users", lambda: iter([first.user, *free]))
    # Not always the first of them: another test's worker may have it.
    assert start().user in free
    monkeypatch.setattr(users, "free_users", lambda: iter([first.user]))
    with pytest.raises(InfrastructureError, match="no user is free"):
        start()


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        ({"7/status": "Name: a\nUid:\t0\t0\t0\t0\n"}, False),
        ({"7/status": "Name: a\nUid:\t0\t0\t70000\t0\n"}, True),
        ({"7/status": "Name: a\nUid:\t0\t0\t0\t0\n", "8/cmdline": ""}, False),
        # The worker itself.
        ({"9/status": "Name: a\nUid:\t70000\t70000\t70000\t70000\n"}, False),
        ({"7/status": "Uid:\t0\n", "sysvipc/shm": "key uid gid cuid\n70000 0 70000 0\n"}, False),
        ({"7/status": "Uid:\t0\n", "sysvipc/sem": "key uid gid cuid\n1 0 2 70000\n"}, True),
    ],
)
def test_whether_a_user_is_taken(tmp_path, monkeypatch, files, taken):
    monkeypatch.setattr(users, "_PROC", tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert users.is_taken(70_000, besides=9) is taken


@pytest.mark.parametrize(
    ("mapped", "first"),
    [("0 0 4294967295", 65_536), ("0 100000 65536", 60_706), ("0 1000 1", None)],
)
def test_users_are_those_that_a_container_has(tmp_path, monkeypatch, mapped, first):
    monkeypatch.setattr(users, "_PROC", tmp_path)
    (tmp_path / "self").mkdir()
    for name in ("uid_map", "gid_map"):
        (tmp_path / "self" / name).write_text(f"{mapped}\n")
    if first is None:
        with pytest.raises(InfrastructureError, match="no spare users"):
            next(users.free_users())
    else:
        assert first <= next(users.free_users()) < first + 35_000


def test_no_processes_to_see_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(users, "_PROC", tmp_path)
    with pytest.raises(InfrastructureError, match="shows no processes"):
        users.is_taken(1, besides=9)


def wait_for_end(process, folder=None):
    """Wait until a process is gone, and all that was in a folder."""
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{process}") or (folder and os.listdir(folder)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


GRADER = """
import sys
from labkit.isolation.host import Host, Sources
from labkit.isolation.sandbox import Sandbox
class Telling(Sandbox):
    def start(self):
        worker = super().start()
        print(worker.number, flush=True)
        return worker
with Telling(sys.argv[1]) as sandbox:
    endless = ("m.py", "m.py", b"while True: pass")
    host = Host(sandbox, Sources("m", {"m": endless}))
    host.begin(1000)
    host.load()
"""


def test_nothing_of_a_killed_grader_stays(walled, tmp_path):
    grader = subprocess.Popen(
        [sys.executable, "-c", GRADER, walled],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with grader:
        worker = int(grader.stdout.readline())
        # It has a submission, which does not end by itself.
        while processor_seconds(worker) < 0.1:
            assert grader.poll() is None
            time.sleep(0.01)
        os.killpg(grader.pid, signal.SIGKILL)
    wait_for_end(worker, tmp_path)


def parent_of(process):
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"^PPid:\t(\d+)", status, re.M)[1])


def test_what_dies_is_told_and_replaced(walled):
    with Sandbox(walled) as walls:
        first, second = walls.start(), walls.start()
        keeper = parent_of(second.number)
        zygote = parent_of(keeper)
        assert first.ended(0) is None
        os.kill(first.number, signal.SIGTERM)
        assert first.ended(60) == -signal.SIGTERM
        os.kill(keeper, signal.SIGKILL)
        assert second.ended(60) == -signal.SIGKILL
        third = walls.start()
        os.kill(zygote, signal.SIGKILL)
        fourth = walls.start()
        for worker in (first, second, third, fourth):
            worker.stop()
            wait_for_end(worker.number)


def test_a_module_that_does_not_load_within_ends_grading(walled, monkeypatch):
    library = python_library()
    broken = replace(library, modules={**library.modules, "_strange": "/nowhere/_strange.so"})
    monkeypatch.setattr(sandbox, "python_library", lambda: broken)
    fix = {"sandbox": "move them out of /tmp", "container": "put TMPDIR on .* noexec"}[walled]
    with (
        Sandbox(walled) as walls,
        pytest.raises(InfrastructureError, match=rf"_strange \(.* {fix}$"),
    ):
        walls.start()


def test_without_room_for_the_library_one_line_says_so(need, tmp_path, monkeypatch):
    mode = need("container")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch, Sandbox(mode) as walls:
        patch.setattr(os, "link", Mock(side_effect=full))
        patch.setattr(shutil, "copyfile", Mock(side_effect=full))
        with pytest.raises(InfrastructureError, match=r"copied to .*No space left .* TMPDIR"):
            walls.start()
    assert not os.listdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with (
        Sandbox(mode) as walls,
        pytest.raises(InfrastructureError, match=r"gone/labkit-worker-") as no,
    ):
        walls.start()
    assert "\n" not in str(no.value)


@pytest.mark.parametrize(
    ("user", "files", "says"),
    [
        (1000, {"proc/sys/kernel/unprivileged_userns_clone": "0"},
         "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        (1000, {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
         "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        (1000, {"proc/sys/user/max_user_namespaces": "0"},
         "sudo sysctl -w user.max_user_namespaces=15000"),
        (0, {"proc/sys/user/max_pid_namespaces": "0"}, "user.max_pid_namespaces is 0"),
        (0, {"proc/sys/kernel/unprivileged_userns_clone": "0", ".dockerenv": ""},
         "docker run --cap-add SYS_ADMIN"),
        (1000, {"proc/sys/user/max_user_namespaces": "0", "run/.containerenv": ""},
         "on the machine that runs this container: sudo"),
        (1000, {}, "bwrap: no. Inside"),
    ],
)  # fmt: skip
def test_what_keeps_bubblewrap_from_working_is_named(tmp_path, monkeypatch, user, files, says):
    fake = tmp_path / "bin/bwrap"
    for name, text in {**files, "bin/bwrap": "#!/bin/sh\necho bwrap: no >&2\nexit 1\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    fake.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(bubblewrap, "_SYSTEM", tmp_path)
    monkeypatch.setenv("PATH", str(fake.parent))
    with pytest.raises(UsageError) as error:
        choose_mode(trust=False, container=False)
    assert "bwrap: no" in str(error.value)
    assert says in str(error.value)
    assert "apt install" not in str(error.value)


def test_a_course_within_pythons_library_is_refused(tmp_path, walled, monkeypatch):
    (library,) = python_library().folders
    linked = tmp_path / "course"
    linked.symlink_to(library)
    fine = [tmp_path, Path("/usr/src/app")]
    refuse_if_visible(fine)
    for path in (Path(library), Path(library, "json/course"), linked / "grades.jsonl"):
        assert choose_mode(trust=True, container=False, unseen=[path]) == "trust"
        with pytest.raises(UsageError, match="move it elsewhere"):
            refuse_if_visible([*fine, path])
    with monkeypatch.context() as changed:
        # Packages are hidden; Debian has none within its library.
        packages = tmp_path / "lib" / "site-packages"
        packages.mkdir(parents=True)
        made = Library((str(packages.parent),), (), {})
        changed.setattr(mode_module, "python_library", lambda: made)
        refuse_if_visible([packages / "course"])
        with pytest.raises(UsageError, match="move it elsewhere"):
            refuse_if_visible([packages.parent / "course"])
    monkeypatch.setattr(mode_module, "_HERE", Path(library, "json"))
    with pytest.raises(UsageError, match=r"json is in Python's library .* move it elsewhere"):
        choose_mode(trust=False, container=walled == "container", unseen=[None])
