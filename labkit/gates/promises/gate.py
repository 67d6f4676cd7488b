"""Gate: the promises of documents hold: their commands run, and print the promised output.

`tests/promises/*.toml` has a row for each command of the documents of both editions, and for
sentences in them that can be tried: the lane in which it runs, its exit code, and text that must be
in its output. A command without a row is a finding, and so is a row that no document uses. A row
that cannot be tried gives the reason, and the document must give it as well.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.course.rows import build, read_toml
from labkit.gates.finding import Finding
from labkit.gates.promises.documents import Command, commands, texts, words
from labkit.gates.promises.lanes import AT_WORK, EDITIONS, LANES, Clones, Ended

FOLDER = "tests/promises"
# The exit code of a script that this machine cannot run, as automake's.
SKIPPED = 77
# Enough of an output to see the error.
_MOST_LINES = 25


@dataclass(frozen=True)
class Promise:
    """A row: a promise of a document, and how it is tried.

    Attributes:
        lanes: the lanes in which it is tried.
        says: texts that must be in the output, white space aside; `\\1` is a group of `command`.
        command: a regular expression for commands of documents.
        sentence: in place of `command`, words of a document.
        run: the command for a sentence.
        code: the exit code.
        prepare: a command that runs before, and has to succeed.
        then: a command that runs afterwards; its output counts as well.
        until: the text that a ready server or watcher prints; then it gets `then` and Ctrl-C.
        during: the server that runs meanwhile; it is ready when it prints `until`.
        typed: the text that is typed in.
        folder: the working folder, as a path from the clone.
        bare: whether it runs with only the packages that a lab needs.
        each_lab: whether to run it for every lab, with its number in place of the lab's.
        seconds: the most that it may take, on a busy machine.
        env: variables of the environment.
        in_ci: whether `.ci/run` already runs the command, so that it is not run again.
        why_not: why it cannot be tried here; `sentence` says so to readers.
    """

    lanes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    command: str = ""
    sentence: str = ""
    run: str = ""
    code: int = 0
    prepare: str = ""
    then: str = ""
    until: str = ""
    during: str = ""
    typed: str = ""
    folder: str = "."
    bare: bool = False
    each_lab: bool = False
    seconds: int = 900
    env: dict[str, str] = field(default_factory=dict)
    in_ci: bool = False
    why_not: str = ""


@dataclass(frozen=True)
class Trial:
    """A promise at the place of a document where it is made.

    Attributes:
        promise: the row.
        place: the document.
        command: the command to run.
        lab: the lab of this trial, if it is tried with each lab.
    """

    promise: Promise
    place: str
    command: str
    lab: str = ""


def promises_are_kept(root: Path, labs: list[Lab] | None = None) -> list[Finding]:
    """Try the promises of both editions' documents; for some labs, only promises that name them."""
    if not (root / FOLDER).is_dir():
        return []
    if AT_WORK in os.environ:
        return [Finding(FOLDER, "not tried: it is a promise itself that runs this", is_note=True)]
    rows = read_promises(root)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        try:
            clones = Clones(root, Path(scratch))
        except subprocess.CalledProcessError as error:
            return [Finding(FOLDER, f"{error}: {(error.stderr or b'').decode().strip()}")]
        editions = {name: clones.folder(name) for name in dict.fromkeys(EDITIONS)}
        trials, findings = plan(rows, editions)
        numbers = None if labs is None else {lab.number for lab in labs}
        if numbers is not None:
            for lane, every in trials.items():
                trials[lane] = [trial for trial in every if numbers & _labs_in(trial.command)]
        chains = [
            [name for name, lane in LANES.items() if first in (name, lane.after)]
            for first, lane in LANES.items()
            if not lane.after
        ]
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(_keep, clones, trials, chain, numbers) for chain in chains]
            return [*findings, *(finding for run in runs for finding in run.result())]


def read_promises(root: Path) -> list[Promise]:
    """Return the rows of a repository.

    Raises:
        LabFolderError: a row has an unknown field, or lacks a field.
    """
    return [
        build(Promise, row, file, lanes=tuple, says=tuple)
        for file in sorted((root / FOLDER).glob("*.toml"))
        for row in read_toml(file).get("promise", [])
    ]


def plan(
    rows: list[Promise], editions: dict[str, Path]
) -> tuple[dict[str, list[Trial]], list[Finding]]:
    """Return the trials of each lane, in the order of the documents, and findings for missing rows.

    Args:
        rows: the promises.
        editions: the folder of each edition.
    """
    findings = [
        Finding(FOLDER, f"{_name(row)}: {wrong}") for row in rows for wrong in _malformed(row)
    ]
    trials: dict[str, list[Trial]] = {lane: [] for lane in LANES}
    used: set[int] = set()
    said: set[str] = set()
    for edition, folder in editions.items():
        lanes = {name for name, lane in LANES.items() if lane.edition == edition}
        labs = [lab.number for lab in find_labs(folder)]
        known: set[tuple[str, str]] = set()
        script = folder / ".ci/run"
        for place in _places(rows, folder):
            fits = {
                number: match
                for number, row in enumerate(rows)
                if lanes & {*row.lanes} or row.why_not or (row.in_ci and script.exists())
                if (match := _fits(row, place))
            }
            used |= {*fits}
            said.add(place.text)
            if not fits and place.is_command:
                message = f"`{place.text}` has no row in {FOLDER} for the {edition} edition"
                findings.append(Finding(place.document, message))
            for number, match in fits.items():
                row = rows[number]
                if row.in_ci and place.text not in script.read_text("utf-8"):
                    findings.append(Finding(".ci/run", f"does not run `{place.text}`"))
                for lane in lanes & {*row.lanes}:
                    # For a command, the first row counts; a sentence may have several.
                    key = (lane, place.text if place.is_command else str(number))
                    if key not in known:
                        known.add(key)
                        each = labs if row.each_lab else [""]
                        trials[lane] += [_trial(row, match, place, lab) for lab in each]
    for number, row in enumerate(rows):
        if number not in used:
            findings.append(Finding(FOLDER, f"no document has {_name(row)}: drop the row"))
        elif row.why_not and row.sentence not in said:
            findings.append(Finding(FOLDER, f"{_name(row)}: no document says {row.sentence!r}"))
    return trials, findings


def _places(rows: list[Promise], folder: Path) -> list[Command]:
    """Return the promises in an edition's documents: commands, and sentences of rows."""
    places = commands(folder)
    shown = texts(folder)
    for sentence in dict.fromkeys(row.sentence for row in rows if row.sentence):
        pattern = re.compile(r"\s+".join(map(re.escape, sentence.split())))
        for name, text in shown.items():
            if match := pattern.search(text):
                places.append(Command(sentence, name, match.start(), is_command=False))
                break
    order = [*shown]
    return sorted(places, key=lambda place: (order.index(place.document), place.position))


def _fits(row: Promise, place: Command) -> re.Match[str] | None:
    if place.is_command:
        return re.fullmatch(row.command, place.text) if row.command else None
    # A promise that cannot be tried and has no command is a sentence alone.
    alone = not row.command
    return re.fullmatch(re.escape(row.sentence), place.text) if alone else None


def _trial(row: Promise, match: re.Match[str], place: Command, lab: str) -> Trial:
    if row.command:
        says, then = tuple(map(match.expand, row.says)), match.expand(row.then)
        row = replace(row, says=says, then=then)
    command = row.run or place.text
    if lab:
        command = re.sub(r"\bN=\d\d\b", f"N={lab}", command)
    return Trial(row, place.document, command, lab)


def _labs_in(command: str) -> set[str]:
    return {first or second for first, second in re.findall(r"\bN=(\d\d)|lab-(\d\d)", command)}


def _name(row: Promise) -> str:
    return f"`{row.command}`" if row.command else f'"{row.sentence}"'


def _malformed(row: Promise) -> Iterator[str]:
    if row.why_not or row.in_ci:
        if row.lanes or (row.in_ci and not row.command) or (row.why_not and not row.sentence):
            yield "it has no lanes, but the `sentence` that says so, or the `command` of .ci/run"
        return
    if bool(row.command) == bool(row.sentence) or bool(row.sentence) != bool(row.run):
        yield "a row has a `command`, or a `sentence` and the command to `run` for it"
    if not row.says:
        yield "it lacks `says`, the text that must be in the output"
    for lane in {*row.lanes} - {*LANES}:
        yield f"there is no lane {lane!r}; the lanes are {', '.join(LANES)}"


def _keep(
    clones: Clones, trials: dict[str, list[Trial]], chain: list[str], labs: set[str] | None = None
) -> list[Finding]:
    findings = []
    for lane in chain:
        if trials[lane]:
            clones.set_up(lane, labs)
        for trial in trials[lane]:
            place = f"{trial.place}, `{trial.command}` in {lane}"
            ended, wrong = _try(clones, lane, trial)
            if SKIPPED in (ended.code, ended.code_after):
                why = ended.output.rstrip().rpartition("\n")[2]
                is_note = not os.environ.get("CI")
                findings.append(Finding(place, f"not tried: {why}", is_note=is_note))
            elif wrong:
                lines = ended.output.rstrip().splitlines()[-_MOST_LINES:]
                shown = "".join(f"\n     | {line}" for line in lines)
                findings.append(Finding(place, "; ".join(wrong) + shown))
    return findings


def _try(clones: Clones, lane: str, trial: Trial) -> tuple[Ended, list[str]]:
    """Try a promise; return how it ended and its faults."""
    row = trial.promise
    env = row.env | {"LAB": trial.lab}
    env |= {edition.upper(): str(clones.folder(edition)) for edition in EDITIONS}
    if row.prepare:
        before = clones.run(lane, row.prepare, env=env, seconds=row.seconds)
        if before.code != 0:
            return before, [f"`{row.prepare}`, which prepares it, ends with {before.code}"]
    first, then = (row.during, trial.command) if row.during else (trial.command, row.then)
    ended = clones.run(
        lane, first, folder=row.folder, bare=row.bare, typed=row.typed, until=row.until,
        then=then, seconds=row.seconds, env=env,
    )  # fmt: skip
    text = words(ended.output)
    wrong = [f"exit code {ended.code}, not {row.code}"] * (ended.code != row.code)
    if ended.code_after:
        wrong.append(f"exit code {ended.code_after} of `{then}`")
    wrong += [f"it does not say {said!r}" for said in row.says if words(said) not in text]
    wrong += ["a traceback"] * ("Traceback (most recent call last)" in text)
    return ended, wrong
