"""`make check`: the gates side by side, their findings at once, and the time of each."""

import argparse
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.gates import BESIDE, GATES, RUNNING, WAITING, Finding
from labkit.gates.finding import takes_labs
from labkit.gates.lab_runs.runs import Runs, shared
from labkit.gates.promises import lanes
from labkit.gates.reach import Reach, changed_files

_ABOUT = """\
With --lab, gates that look at the whole repository are left out. Two gates leave out a part:
`arrows` the packages, and `readmes` the documents outside the labs.

With --changed, a gate checks the labs that the changes can reach: by the imports of the gate's own
code, by the imports of a lab's files, and by the files of a lab's folder that the gate reads. A
file whose readers are not known reaches everything. Gates that look at the whole repository run
after any change.
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit check`."""
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = _ABOUT
    command.add_argument("gates", nargs="*", metavar="GATE", help="only these gates")
    command.add_argument("--lab", action="append", default=[], metavar="N",
                         help="only these labs: 04, or 04,07, or the option twice")  # fmt: skip
    command.add_argument("--changed", nargs="?", const="", metavar="COMMIT",
                         help="only gates and labs in reach of the files that differ from a "
                         "commit; default: the point where the branch left its upstream or "
                         "origin/main, or HEAD if there is neither; untracked files "
                         "count")  # fmt: skip


def run(args: argparse.Namespace, root: Path) -> int:
    """Run the gates, and print their findings. Returns 0, or 1 if there are findings."""
    unknown = [name for name in args.gates if name not in GATES]
    if unknown:
        raise UsageError(f"there is no gate {unknown[0]!r}; the gates are {', '.join(GATES)}")
    all_labs = find_labs(root)
    chosen: dict[str, list[Lab] | None] = dict.fromkeys(args.gates or GATES)
    if args.changed is not None:
        chosen = _reached(root, all_labs, args.changed, chosen)
    if numbers := [number for numbers in args.lab for number in numbers.split(",")]:
        chosen = _narrowed([pick_lab(all_labs, number) for number in numbers], chosen)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background jobs ignore it; servers that a gate runs would not end by Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    began, failed = time.monotonic(), 0
    with ThreadPoolExecutor(len(RUNNING + WAITING)) as threads, shared(root) as runs:
        try:
            reports = [_begun(name, root, labs, runs, threads) for name, labs in chosen.items()]
            for report in reports:
                failed += report.finish()
        except KeyboardInterrupt:
            lanes.stop()
            raise
    seconds = f" ({time.monotonic() - began:.0f} s)"
    print(f"\n{failed} findings{seconds}" if failed else f"\nEvery gate is ok.{seconds}")
    return 1 if failed else 0


def _reached(
    root: Path, labs: list[Lab], commit: str, chosen: dict[str, list[Lab] | None]
) -> dict[str, list[Lab] | None]:
    """Return the gates that changes reach and their labs; print the gates that are left out."""
    files, since = changed_files(root, commit)
    print(f"{len(files)} files differ from {since}.")
    reach = Reach(root, labs)
    reached = reach.of(files)
    for file in reach.unknown:
        print(f"{file}: its readers are not known, so everything runs.")
    out = [name for name in chosen if reached[name] == []]
    if out:
        print(f"Left out, because no change reaches them: {', '.join(out)}.")
    for name in chosen:
        if some := reached[name]:
            print(f"{name}: only {', '.join(lab.label for lab in some)}.")
    return {name: reached[name] for name in chosen if reached[name] != []}


def _narrowed(labs: list[Lab], chosen: dict[str, list[Lab] | None]) -> dict[str, list[Lab] | None]:
    """Return the gates that look at some of these labs; print which are left out."""
    out = [name for name in chosen if not takes_labs(GATES[name])]
    if out:
        print(f"Left out, because they look at the whole repository: {', '.join(out)}.")
    names = {lab.name for lab in labs}
    return {
        name: labs if some is None else [lab for lab in some if lab.name in names]
        for name, some in chosen.items()
        if name not in out
    }


@dataclass
class _Report:
    """The printed report of a gate.

    Attributes:
        name: the name of the gate.
        findings: its findings, in the order in which it yields them.
        seconds: the real time that it took; gates share the processors.
        failed: the number of findings that are not notes.
    """

    name: str
    findings: Callable[[], Iterable[Finding]]
    running: "Future[None] | None" = None
    seconds: float = 0.0
    failed: int = field(default=0, init=False)

    def work(self) -> None:
        """Print each finding of the gate at once."""
        began = time.monotonic()
        for finding in self.findings():
            what = "note" if finding.is_note else "FAIL"
            print(f"  {what}  {self.name}: {finding}", flush=True)
            self.failed += not finding.is_note
        self.seconds = time.monotonic() - began

    def finish(self) -> int:
        """Wait for the gate, or run it now; print its result."""
        if self.running is None:
            self.work()
        else:
            self.running.result()
        said = f"{self.failed} findings" if self.failed else "ok"
        print(f"{self.name:<12} {said:<12} {self.seconds:5.0f} s", flush=True)
        return self.failed


def _begun(
    name: str, root: Path, labs: list[Lab] | None, runs: Runs, threads: ThreadPoolExecutor
) -> _Report:
    """Return the report of a gate; a gate that takes long has then been started."""
    whole = [] if labs is None else [labs]
    if name in RUNNING + WAITING:
        report = _Report(name, lambda: GATES[name](root, *whole))
        report.running = threads.submit(report.work)
        return report
    if name not in BESIDE:
        return _Report(name, lambda: GATES[name](root, *whole))
    if takes_labs(GATES[name]):
        parts = [[[lab]] for lab in (find_labs(root) if labs is None else labs)]
    else:
        parts = [[]]
    jobs = [runs.call(BESIDE[name], findings_of, name, root, *part) for part in parts]
    return _Report(name, lambda: (finding for job in jobs for finding in job.result()))


def findings_of(name: str, root: Path, *labs: list[Lab]) -> list[Finding]:
    """Return the findings of a gate, perhaps in another process."""
    return [*GATES[name](root, *labs)]
