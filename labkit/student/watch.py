"""`make watch`: run a lab whenever its `starter.py` is saved; once it passes, run the next lab.

A save during a run ends that run and starts a new one.
"""

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.course.tracks import track_done
from labkit.student.pick import add_lab, add_pytest, add_task, lab_or_next, task_of
from labkit.student.progress import Progress, next_unfinished

Start = Callable[[Lab], "subprocess.Popen[bytes]"]
# How often a run is asked whether it has ended.
_LOOK_MILLISECONDS = 200
_PATIENCE_SECONDS = 1.0


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit watch`."""
    add_lab(command)
    add_task(command)
    add_pytest(command)


def run(args: argparse.Namespace, root: Path) -> int:
    """Watch until Ctrl-C, or until every lab passes; return 0."""
    from watchfiles import watch

    labs, lab = find_labs(root), lab_or_next(args.lab, root)
    task = ["--task", str(task_of(lab, args.task))] if args.task else []

    def start(lab: Lab) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "labkit", "lab", "--lab", lab.number, *task]
        return subprocess.Popen([*command, "--", *args.pytest], cwd=root)

    starters = {lab.starter for lab in labs}
    # Editors save by replacing the file, so the folders are watched, not the files.
    changes = watch(
        *(lab.path for lab in labs),
        watch_filter=lambda _, path: Path(path) in starters,
        rust_timeout=_LOOK_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=True,
    )
    saves = ({Path(path) for _, path in change} for change in changes)
    watcher = Watcher(labs, root, start, goes_on=not task)
    try:
        watcher.watch(lab, saves)
    except KeyboardInterrupt:
        print("\nStopped.")
    finally:
        watcher.stop()
    return 0


class Watcher:
    """Runs one lab at a time.

    Args:
        labs: the watched labs.
        root: the repository.
        start: starts the run of a lab.
        goes_on: whether the next lab follows a run that passes.
    """

    def __init__(self, labs: list[Lab], root: Path, start: Start, *, goes_on: bool) -> None:
        self._labs = labs
        self._root = root
        self._start = start
        self._goes_on = goes_on
        self._run: subprocess.Popen[bytes] | None = None

    def watch(self, lab: Lab, saves: Iterable[set[Path]]) -> None:
        """Run `lab`, then the lab of each saved file; end when every lab passes.

        Args:
            lab: the first lab.
            saves: the starters saved since the last look, one set for each look.
        """
        print(
            "Watching every starter.py: when you save one, its lab runs. Ctrl-C stops.", flush=True
        )
        self._begin(lab)
        for saved in saves:
            mine = [lab] if lab.starter in saved else []
            if changed := mine or [other for other in self._labs if other.starter in saved]:
                lab = changed[0]
                self.stop()
                print(f"\nSaved; running {lab.label} again.", flush=True)
                self._begin(lab)
            elif self._has_passed():
                following = next_unfinished(self._labs, Progress(self._root))
                if following is None:
                    print("\nEvery lab passes. Well done.")
                    return
                if following != lab:
                    lab = following
                    if done := track_done(self._labs, lab):
                        print(f"\n{done[0].upper()}{done[1:]}.")
                    readme = lab.readme.relative_to(self._root)
                    print(f"\nNext is {lab.label}, {lab.title}: read {readme}", flush=True)
                    self._begin(lab)

    def _begin(self, lab: Lab) -> None:
        with _interrupts_wait():
            self._run = self._start(lab)

    def stop(self) -> None:
        """End the run, if there is one."""
        if self._run is None:
            return
        if self._run.poll() is None:
            self._run.terminate()
            try:
                self._run.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._run.kill()
                self._run.wait()
        self._run = None

    def _has_passed(self) -> bool:
        """Return whether the run has ended, just now, with every test passing."""
        if self._run is None or self._run.poll() is None:
            return False
        passed = self._run.returncode == 0
        self._run = None
        return passed and self._goes_on


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C until the process that the body starts is known; that process ignores it.

    Ctrl-C also reaches the run, which would print a traceback; instead, the watcher ends the run.
    """
    waiting: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if waiting and callable(handler):
        handler(signal.SIGINT, None)
