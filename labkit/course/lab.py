"""A lab as data: `lab.toml`, `bugs.toml`, the manifest of tests, and the paths of its files."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.course.hunt import KILLED, HuntFacts, Pool, read_pool
from labkit.course.manifest import Test, read_manifest
from labkit.course.rows import build, read_toml
from labkit.errors import LabFolderError, UsageError

ROOT = Path(__file__).resolve().parents[2]
TRACKS = ("core", "advanced")
# The folder of a lab with the course's own files, which students need not open; and files in it, as
# paths from the lab's folder.
COURSE = "course"
FACTS = f"{COURSE}/lab.toml"
BUGS = f"{COURSE}/bugs.toml"
PRISTINE = f"{COURSE}/starter.py.orig"
_HELD_BY_GIVEN = (
    'modules = ["package.module"], files = ["given.py", "data.json"], own = { VARIABLE = "name" }'
)
# The layers of a server, in the order in which a token meets them.
PIPELINE = "pipeline"
ROLES = ("tokens", "stops", "reasoning", "calls", PIPELINE, "channel", "frames")
# Those from ids to events; the pipeline composes the others.
TEXT_PATH = ROLES[: ROLES.index(PIPELINE) + 1]


@dataclass(frozen=True)
class Task:
    """A step of a lab: its title, and the earlier tasks that it needs."""

    number: int
    title: str
    blocked_by: tuple[int, ...]


@dataclass(frozen=True)
class Bug:
    """A plausible wrong implementation: one small edit to the solution.

    Attributes:
        name: for `LAB_IMPL=bug:NAME`.
        title: the fault, in a line.
        find, replace: the edit; `find` occurs exactly once in the solution.
        task: the task whose hints help.
        killed_by: the exact set of tests that fail under it.
        seen_in: the real engine's issue, or "".
    """

    name: str
    title: str
    find: str
    replace: str
    task: int
    killed_by: frozenset[str]
    seen_in: str


@dataclass(frozen=True)
class Serves:
    """A row `[[serves]]`: how one of a lab's classes becomes a layer of a server.

    Attributes:
        role: the layer, one of `ROLES`. If several labs have a layer, the latest of them serves.
        class_name: the class; in the file it is called `class`.
        arguments: the arguments of the class, by name, each in the form that
            `labkit.serving.layers.Maker.make` describes.
        methods: a method's name in the layer's shape -> its name in the class.
        vocabulary: for `tokens` that read any vocabulary, the file of a vocabulary to show them
            with, relative to the lab's folder; "" if the ids must be bytes.
        engine_differs: a sentence for people if the engine's own layer emits at other times than
            this class must; "" if it does not.
    """

    role: str
    class_name: str
    arguments: Mapping[str, str]
    methods: Mapping[str, str]
    vocabulary: str = ""
    engine_differs: str = ""


@dataclass(frozen=True)
class Strip:
    """The table `[strip]`: a class that is not a layer of a server, but can be watched.

    Attributes:
        class_name: the class; in the file it is called `class`.
        encode, decode: the names of its methods from text to ids and back.
    """

    class_name: str
    encode: str
    decode: str


@dataclass(frozen=True)
class Lab:
    """One lab. Build it with `read_lab`.

    Attributes:
        path: its folder.
        title, summary, time, difficulty, prerequisites, place: as in `lab.toml`.
        tasks: in order.
        parts: class name -> folder name of the lab that builds it.
        starts_without_parts: whether tests that need no part run while one is missing.
        track: `core`, or `advanced`.
        given: the modules of this course that its code may import, besides Python's library.
        given_files: the other given files: programs, and the files that these read.
        given_own: environment variables that may hold the path of a further given file -> the name
            of that file.
        serves: the classes that can be layers of a server.
        hunt: the facts of a hunt, if students write the tests of this lab.
        strip: the class that the strip "your code, live" shows for a lab without layers.
    """

    path: Path
    title: str
    summary: str
    time: str
    difficulty: str
    prerequisites: str
    place: int
    tasks: tuple[Task, ...]
    parts: Mapping[str, str]
    starts_without_parts: bool = False
    track: str = "core"
    given: tuple[str, ...] = ()
    given_files: tuple[Path, ...] = ()
    given_own: Mapping[str, str] = field(default_factory=dict)
    serves: tuple[Serves, ...] = ()
    hunt: HuntFacts | None = None
    strip: Strip | None = None

    @property
    def name(self) -> str:
        """The folder's name, `lab-NN-some-words`."""
        return self.path.name

    @property
    def label(self) -> str:
        """The short name, `lab-03`."""
        return "-".join(self.name.split("-")[:2])

    @property
    def number(self) -> str:
        """The number for `make lab N=`, `03`."""
        return self.name.split("-")[1]

    @property
    def starter(self) -> Path:
        """The file that the student edits."""
        return self.path / "starter.py"

    @property
    def pristine_starter(self) -> Path:
        """The starter as handed out; `make reset` copies it."""
        return self.path / PRISTINE

    @property
    def solution(self) -> Path:
        """The reference."""
        return self.path / "solution.py"

    @property
    def test_file(self) -> Path:
        """The tests."""
        return self.path / "test_lab.py"

    def vocabulary(self, serves: Serves) -> Path | None:
        """Return the tokenizer to show a row's layer with; None if ids are bytes."""
        if not serves.vocabulary:
            return None
        return Path(os.path.normpath(self.path / serves.vocabulary))

    @property
    def readme(self) -> Path:
        """The text for the student."""
        return self.path / "README.md"

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """The manifest, see `labkit.course.manifest`; a hunt's includes the published pool."""
        return read_manifest(self.test_file) if self.hunt is None else self.tests_of(self.pool)

    def tests_of(self, pool: Pool, dead: Collection[str] = ()) -> tuple[Test, ...]:
        """Return the tests of a hunt, with one for each wrong implementation of a pool.

        Args:
            pool: the pool.
            dead: see `Pool.tests`.
        """
        own = read_manifest(self.test_file)
        wrong = {test.name: test for test in pool.tests(dead)}
        names = [code.name for code in pool.wrong()]
        killed = [wrong[f"{KILLED}[{name}]"] for name in names]
        groups = [killed if test.name == KILLED else [test] for test in own]
        return tuple(test for group in groups for test in group)

    @property
    def hunt_files(self) -> tuple[Path, ...]:
        """The files of a hunt's published pool: its list, adapters, and the engine's modules.

        Raises:
            LabFolderError: as `pool` does.
        """
        if self.hunt is None:
            return ()
        targets, root = self.pool.targets, self.path.parents[2]
        adapters = [self.path / target.adapter for target in targets]
        modules = {root / name: None for target in targets for name in target.modules}
        return (self.path / self.hunt.pool, *adapters, *modules)

    @cached_property
    def pool(self) -> Pool:
        """The published part of a hunt's pool.

        Raises:
            LabFolderError: it does not fit together; the message names file and row.
        """
        assert self.hunt is not None
        return read_pool(self.path, self.path / self.hunt.pool, self.given)

    @cached_property
    def bugs(self) -> tuple[Bug, ...]:
        """The known bugs; empty if `bugs.toml` is missing."""
        path = self.path / BUGS
        if not path.exists():
            return ()
        rows = read_toml(path).get("bug", [])
        return tuple(build(Bug, row, path, killed_by=frozenset) for row in rows)

    def blockers(self, task: int) -> set[int]:
        """Return the tasks that `task` needs, directly or through others."""
        direct = next((t.blocked_by for t in self.tasks if t.number == task), ())
        return set(direct).union(*(self.blockers(number) for number in direct))


def read_lab(path: Path) -> Lab:
    """Read the lab in folder `path`.

    Raises:
        LabFolderError: `lab.toml` is missing, is not valid TOML, lacks a field, or names a module
            that does not exist.
    """
    file = path / FACTS
    facts = read_toml(file)
    tasks = [
        build(Task, {"number": number, "blocked_by": [], **row}, file, blocked_by=tuple)
        for number, row in enumerate(facts.pop("task", []), start=1)
    ]
    if "given" in facts:
        facts |= _given(facts["given"], file, path)
    if facts.get("track", "core") not in TRACKS:
        raise LabFolderError(f"{file}: track is {facts['track']!r}, but must be one of {TRACKS}")
    if "hunt" in facts:
        facts["hunt"] = build(HuntFacts, facts["hunt"], file)
    if "strip" in facts:
        facts["strip"] = build(Strip, _class_named(facts["strip"]), file)
    if "serves" in facts:
        facts["serves"] = tuple(_serves(row, file) for row in facts["serves"])
    return build(Lab, {"parts": {}, **facts, "path": path, "tasks": tuple(tasks)}, file)


def _given(table: Any, file: Path, folder: Path) -> dict[str, Any]:
    """Return the fields that a table `[given]` of the lab in `folder` fills."""
    entries = {"modules": [], "files": [], "own": {}, **table} if isinstance(table, dict) else {}
    modules, names, own = (entries.pop(key, None) for key in ("modules", "files", "own"))
    texts = [modules, names, [*own.values()] if isinstance(own, dict) else None]
    if not table or entries or not all(map(_are_texts, texts)):
        raise LabFolderError(f"{file}: [given] holds {_HELD_BY_GIVEN}")
    files = [Path(os.path.normpath(folder / name)) for name in names]
    for path in files:
        if not path.is_relative_to(folder.parents[1]):
            raise LabFolderError(f"{file}: [given] names {path}, which is not in its phase")
    read = [path.name for path in files if path.suffix != ".py"] + [*own.values()]
    if len(set(read)) < len(read):
        raise LabFolderError(f"{file}: [given] names two files with the same name: {read}")
    for name in modules:
        if not (ROOT / f"{name.replace('.', '/')}.py").is_file():
            raise LabFolderError(
                f"{file}: [given] names {name!r}, which is not a module of this course"
            )
    return {"given": tuple(modules), "given_files": tuple(files), "given_own": own}


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _serves(row: dict[str, Any], file: Path) -> Serves:
    """Return a row of `[[serves]]`."""
    serves = build(Serves, {"arguments": {}, "methods": {}, **_class_named(row)}, file)
    if serves.role not in ROLES:
        raise LabFolderError(
            f"{file}: Serves: role is {serves.role!r}, but must be one of {', '.join(ROLES)}"
        )
    return serves


def _class_named(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row under the names that Python allows."""
    return {"class_name" if key == "class" else key: value for key, value in row.items()}


def find_labs(root: Path) -> list[Lab]:
    """Return the labs under `root` in the order of the ladder."""
    folders = (file.parents[1] for file in root.glob(f"phase-*/labs/lab-*/{FACTS}"))
    return sorted(map(read_lab, folders), key=lambda lab: (lab.place, lab.name))


def pick_lab(labs: list[Lab], number: str) -> Lab:
    """Return the lab that `N=number` means; `3`, `03` and `lab-03` are the same.

    Raises:
        UsageError: there is no such lab, or `number` is empty.
    """
    if not number:
        raise UsageError(f"name a lab, for example N={labs[0].number}")
    key = re.sub(r"^lab-", "", number.strip()).zfill(2)
    for lab in labs:
        if key in (lab.number, lab.name.removeprefix("lab-")):
            return lab
    have = ", ".join(f"N={lab.number}" for lab in labs)
    raise UsageError(f"there is no lab {number!r}; the labs are {have}")
