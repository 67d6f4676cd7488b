"""Where promises are kept: clones of both editions, in which commands run as a reader types them.

A lane is a clone in a certain state. The commands of a lane run one after the other, since later
commands build on earlier commands; lanes run side by side.

The student edition sets itself up by its own first commands, as on a fresh machine. The clone of
the whole course also has an environment of its own, so that commands in the clone cannot change the
environment of this process.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from labkit.course.lab import find_labs

# In the environment of the commands that run here.
AT_WORK = "LABKIT_PROMISES"
# Clones are in a folder whose name has a space and a letter that is not ASCII, as readers may have.
FOLDER = "wörk späce"
# Packages of requirements/core.txt that labs do not need.
_NOT_BARE = ("jinja2", "markupsafe")
_BLOCK = re.compile(r"^\S.*\\\n(?: +.*\n)+", re.MULTILINE)
# A server has one address in the documents, so only one server runs at a time.
_SERVER = threading.Lock()
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.edu"))
}


class Lane(NamedTuple):
    """A clone in a certain state.

    Attributes:
        edition: `full` or `student`, the edition of the clone.
        what: its state.
        after: the lane that uses the clone first, "" for none.
    """

    edition: str
    what: str
    after: str = ""


EDITIONS = ("full", "student")
LANES = {
    "full": Lane("full", "the whole course, in which nothing is written"),
    "term": Lane("full", "the same, where an instructor works through a term", "full"),
    "student": Lane("student", "the student edition, in which nothing is written"),
    "solved": Lane("student", "the same, with every lab solved, in CI", "student"),
    "engine": Lane("full", "an environment in which only the engine was installed"),
    "labs": Lane("full", "the whole course, for commands that run for each lab"),
}


class Ended(NamedTuple):
    """How a command has ended.

    Attributes:
        code: its exit code as a shell has it, None if it had to be killed.
        output: its whole output, and that of the command afterwards.
        seconds: how long it took.
        code_after: the exit code of the command afterwards.
    """

    code: int | None
    output: str
    seconds: float
    code_after: int | None = 0


class Clones:
    """Clones of a repository in a scratch folder.

    Args:
        root: the repository.
        scratch: an empty folder.

    Raises:
        subprocess.CalledProcessError: an edition or an environment cannot be made.
    """

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root
        self._scratch = scratch / FOLDER
        self._folders = {name: self._scratch / name for name in EDITIONS}
        (self._scratch / "elsewhere").mkdir(parents=True)
        self._copy(self._folders["full"])
        command = [sys.executable, "-m", "labkit", "student-edition", "--out"]
        subprocess.run(
            [*command, self._folders["student"]], cwd=root, check=True, capture_output=True
        )

    def folder(self, edition: str) -> Path:
        """Return the clone of an edition."""
        return self._folders[edition]

    def set_up(self, lane: str, labs: Collection[str] | None = None) -> None:
        """Bring a clone into the state of a lane.

        Args:
            lane: its name.
            labs: the numbers of the labs that will be tried in it; None for all.
        """
        if lane == "engine":
            self._environment("engine")
        elif lane == "solved":
            theirs = find_labs(self._folders["student"])
            for mine, lab in zip(find_labs(self._root), theirs, strict=True):
                lab.starter.write_bytes(mine.solution.read_bytes())
            for lab in theirs:
                if labs is None or lab.number in labs:
                    # Later commands check that it has passed here.
                    self.run(lane, f"make lab N={lab.number}")

    def run(self, lane: str, command: str, *, folder: str = ".", bare: bool = False,
            typed: str = "", until: str = "", then: str = "", seconds: float = 120,
            env: dict[str, str] | None = None) -> Ended:  # fmt: skip
        """Run a command line in a lane.

        Args:
            lane: its name.
            command: for bash.
            folder: the working folder, as a path from the clone.
            bare: whether it runs in an environment with only the packages that a lab needs.
            typed: the text that is typed into it.
            until: a server or a watcher is ready when it has printed this; then it gets `then`,
                and Ctrl-C.
            then: a command line that runs afterwards; its output is part of the output.
            seconds: the time after which it is killed.
            env: further variables.
        """
        shell = {**self._env(lane, bare), **(env or {})}
        place = self._folders[LANES[lane].edition] / folder
        with _SERVER if until else nullcontext():
            return _run(command, place, shell, typed, until, then, seconds)

    def _env(self, lane: str, bare: bool) -> dict[str, str]:
        """Return the environment of a lane: the machine's, without the course's variables."""
        # make passes the variables of its command line in the environment as well.
        of_make = re.findall(r"^(\w+) \?=", (self._root / "Makefile").read_text("utf-8"), re.M)
        known = re.compile(
            rf"({'|'.join(of_make)})$|LAB_|CI$|SOAK$|PYTHON|VIRTUAL_ENV|MAKE|MFLAGS|PYTEST|COLUMNS|LC_|LANG"
        )
        env = {name: value for name, value in os.environ.items() if not known.match(name)}
        path = [part for part in env["PATH"].split(os.pathsep) if part != str(_BIN)]
        if bare or lane == "engine":
            path.insert(0, str(self._environment("bare" if bare else "engine")))
        env |= _AUTHOR | {"PATH": os.pathsep.join(path), "COLUMNS": "100", AT_WORK: "1"}
        # Students meet machines of both kinds.
        env["LC_ALL"] = "C" if lane == "student" else "C.UTF-8"
        return env | ({"CI": "true"} if lane == "solved" else {})

    def _copy(self, folder: Path) -> None:
        """Copy the current files of the repository, and no others, with a history."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(
            command, cwd=self._root, check=True, capture_output=True, text=True
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (self._root / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._root / name, folder / name)
        for lab in find_labs(folder):
            shutil.copy2(lab.pristine_starter, lab.starter)
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Course"]):
            subprocess.run(["git", *words], cwd=folder, check=True, env=os.environ | _AUTHOR)

    def _environment(self, name: str) -> Path:
        """Return the folder of programs of an environment, which is made the first time."""
        folder = self._scratch / name / "bin"
        with _ENVIRONMENTS:
            if not folder.exists():
                subprocess.run([sys.executable, "-m", "venv", str(folder.parent)], check=True)
                if name == "bare":
                    self._install_bare(folder)
        return folder

    def _install_bare(self, folder: Path) -> None:
        blocks = _BLOCK.findall((self._root / "requirements/core.txt").read_text())
        lock = self._scratch / "bare.txt"
        lock.write_text("".join(b for b in blocks if b.partition("==")[0] not in _NOT_BARE))
        pip = [str(folder / "python"), "-m", "pip", "install", "-q", "--no-deps"]
        command = [*pip, "--require-hashes", "-r", str(lock)]
        subprocess.run(command, check=True, capture_output=True)


_BIN = Path(sys.prefix) / "bin"
_ENVIRONMENTS = threading.Lock()
_LIVE: set["subprocess.Popen[bytes]"] = set()
_STOPPED = threading.Event()
_BEGINNING = threading.Lock()


def stop() -> None:
    """End all commands, and let no other begin: a terminal's Ctrl-C does not reach them."""
    with _BEGINNING:
        _STOPPED.set()
        for process in [*_LIVE]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _run(
    command: str,
    folder: Path,
    env: dict[str, str],
    typed: str,
    until: str,
    then: str,
    seconds: float,
) -> Ended:
    begun = time.monotonic()
    with _BEGINNING:
        if _STOPPED.is_set():
            return Ended(None, "stopped", 0.0)
        # Without `-e`, as at a prompt; in a group of its own, as Ctrl-C reaches all of a group.
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=folder, env=env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        _LIVE.add(process)
    assert process.stdin is not None
    printed: list[bytes] = []
    ready, silent = threading.Event(), threading.Event()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if until and until in b"".join(printed).decode(errors="replace"):
                ready.set()
                silent.set()
        silent.set()

    listener = threading.Thread(target=listen)
    listener.start()
    overdue = threading.Event()
    killer = threading.Timer(seconds, _kill, [process, overdue])
    killer.start()
    after = Ended(0, "", 0.0)
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(typed.encode())
            process.stdin.close()
        if until:
            silent.wait()
            if then and ready.is_set():
                after = _run(then, folder, env, "", "", "", seconds)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        listener.join()
        process.wait()
    finally:
        killer.cancel()
        _LIVE.discard(process)
    if then and not until:
        after = _run(then, folder, env, "", "", "", seconds)
    output = b"".join(printed).decode(errors="replace") + after.output
    # For a signal, the exit code that a shell reports.
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Ended(None if overdue.is_set() else code, output, time.monotonic() - begun, after.code)


def _kill(process: "subprocess.Popen[bytes]", overdue: threading.Event) -> None:
    overdue.set()
    os.killpg(process.pid, signal.SIGKILL)
