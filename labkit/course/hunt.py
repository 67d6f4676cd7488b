"""A hunt: a lab in which students write the tests, and the pool of implementations to run them on.

    pool.toml                                     test_lab03_one_late(make) of a student
    [[target]]  a lab, and modules of the engine      fails on a right one: it is void
                behind an adapter: right              fails on a wrong one: that is killed
    [[wrong]]   an edit of one of those

The published part of the pool consists of the engine's modules and edits of them, so a student
edition has all of it. The hidden part needs references: those of the labs, which are right, and
their known bugs.

But: it is data only. `labkit.running.hunting.rules` runs tests on it.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.course.imports import imported_modules
from labkit.course.manifest import Test
from labkit.course.metering import COUNTER, metered
from labkit.course.rows import build, edited, read_toml
from labkit.errors import LabFolderError

# The test of a hunt's test_lab.py that runs for each wrong implementation.
KILLED = "test_killed"
HIDDEN = "hidden"
HINTS = 2
_POINTS = 100
_GOAL = "one of your {lab} tests fails here and on no correct implementation"


@dataclass(frozen=True)
class HuntFacts:
    """The table `[hunt]` of a `lab.toml`.

    Attributes:
        pool: the file with the published part of the pool.
        most_tests: how many tests a student may write for one lab.
    """

    pool: str
    most_tests: int


@dataclass(frozen=True)
class Target:
    """A lab whose implementations are hunted.

    Attributes:
        lab: its folder's name.
        task: the hunt's task for this lab.
        adapter: the file that wraps modules of the engine in the lab's shape.
        names: the classes and functions that a test may use.
        unseen: known bugs of the lab that are not in the pool, because no test here can see them.
        modules: the engine's files that the adapter imports, directly or through others, each after
            those that it imports itself.
    """

    lab: str
    task: int
    adapter: str
    names: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in the names of tests and wrong implementations: `lab03`."""
        return "".join(self.lab.split("-")[:2])


@dataclass(frozen=True)
class Wrong:
    """A row of the pool: an edit of the engine's modules or of their adapter.

    Attributes:
        name: begins with the label of its target: `lab03-one-late`.
        symptom: the symptom that a user sees; students read nothing else of this row.
        file: the edited file.
        find, replace: the edit; `find` occurs exactly once.
        hints: the first says where to look, the last which input to feed.
        cost: whether it is too slow, and nothing else.
        seen_in: the real engine's issue, or "".
    """

    name: str
    symptom: str
    file: str
    find: str
    replace: str
    hints: tuple[str, ...]
    cost: bool = False
    seen_in: str = ""


@dataclass(frozen=True)
class Code:
    """An implementation of the pool, as it is run.

    Attributes:
        name: for a wrong implementation, the name of its row or bug; else its origin.
        target: the lab that it implements.
        source: the source of a module that has the target's names.
        given: the modules that the source may import besides `modules`.
        wrong: whether it is wrong.
        symptom, hints: those of a wrong implementation.
        hidden: whether it is hidden from students.
        modules: names and sources of its own modules, each after those that it imports.
        cost: whether it is too slow, and nothing else; unknown for hidden implementations.
    """

    name: str
    target: Target
    source: bytes
    given: tuple[str, ...] = ()
    wrong: bool = False
    symptom: str = ""
    hints: tuple[str, ...] = ()
    hidden: bool = False
    modules: tuple[tuple[str, str], ...] = ()
    cost: bool = False

    @property
    def imports(self) -> tuple[str, ...]:
        """The modules of the course that its program may import."""
        return (*self.given, COUNTER)

    def program(self) -> bytes:
        """Return the source of one module that has the target's names."""
        return bundle(self.modules, self.source.decode()) if self.modules else self.source

    def metered_program(self) -> bytes:
        """Return `program`, with its steps counted; see `labkit.running.hunting.work`."""
        source = metered(self.source.decode())
        if not self.modules:
            return source.encode()
        return bundle([(name, metered(text)) for name, text in self.modules], source)


@dataclass(frozen=True)
class PoolTest(Test):
    """A wrong implementation as a test of the hunt: it passes if a student's test kills it.

    Attributes:
        visibility: who may see it, as for hidden tests: see `labkit.grading.overlay`.
    """

    visibility: str


@dataclass(frozen=True)
class Pool:
    """The implementations of a hunt.

    Attributes:
        targets: in the order of the hunt's tasks.
        codes: the right implementations of each target, then its wrong implementations.
    """

    targets: tuple[Target, ...]
    codes: tuple[Code, ...]

    def right(self, target: Target) -> list[Code]:
        """Return the right implementations of a target."""
        return [code for code in self.codes if code.target == target and not code.wrong]

    def wrong(self, target: Target | None = None) -> list[Code]:
        """Return the wrong implementations of a target, or of all."""
        return [code for code in self.codes if code.wrong and target in (None, code.target)]

    def tests(self, dead: Collection[str] = ()) -> list[Test]:
        """Return the wrong implementations as tests: their points are 100, shared out evenly.

        Args:
            dead: the names of the implementations that get their share first, so that together
                they have their share of the pool, in whole points.
        """
        wrong = sorted(self.wrong(), key=lambda code: code.name not in dead)
        shares = [_POINTS * place // max(len(wrong), 1) for place in range(len(wrong) + 1)]
        return [
            PoolTest(
                name=f"{KILLED}[{code.name}]",
                rule=_GOAL.format(lab=code.target.label.replace("lab", "lab ")),
                task=code.target.task,
                points=end - begin,
                timeout=None,
                marks=frozenset(["task", "points"]),
                visibility=HIDDEN if code.hidden else "visible",
            )
            for code, begin, end in zip(wrong, shares, shares[1:], strict=False)
        ]


def label_of(test: str) -> str:
    """Return the target that a student's test names, `lab03`; "" if it names none.

    >>> label_of("test_lab03_one_late"), label_of("test_it")
    ('lab03', '')
    """
    match = re.match(r"test_(lab\d\d)_\w", test)
    return match[1] if match else ""


def labels_in(test: str) -> list[str]:
    """Return the labs that a test's name contains, each once, in order.

    >>> labels_in("test_lab03_like_lab04"), labels_in("test_it")
    (['lab03', 'lab04'], [])
    """
    return [*dict.fromkeys(re.findall(r"(?<![a-zA-Z0-9])lab\d\d(?!\d)", test))]


def bundle(modules: Iterable[tuple[str, str]], adapter: str) -> bytes:
    """Return the source of one module that runs an adapter over modules which are in no file.

    While the module is imported, these modules replace those of the same names in the process.

    Args:
        modules: names and sources, in the order in which they import each other.
        adapter: the source that imports them.
    """
    return _BUNDLE.format(modules=[*modules], adapter=adapter).encode()


_BUNDLE = """\
import sys as _sys, types as _types
from labkit.running.hunting.work import compiled as _compiled, dataclasses_compiled_once as _once

_MODULES = {modules!r}
_before = {{name: _sys.modules.pop(name, None) for name, _ in _MODULES}}
try:
    with _once():
        for _name, _source in _MODULES:
            _sys.modules[_name] = _types.ModuleType(_name)
            exec(_compiled(_source, _name), vars(_sys.modules[_name]))
        exec(_compiled({adapter!r}, "adapter"), globals())
finally:
    for _name, _module in _before.items():
        _sys.modules.pop(_name, None)
        if _module is not None:
            _sys.modules[_name] = _module
"""


def _built(
    target: Target, wrongs: Sequence[Wrong], folder: Path, given: Collection[str]
) -> list[Code]:
    """Return the published implementations of a target, first the right implementation.

    Args:
        target: the target.
        wrongs: its rows.
        folder: the hunt's folder, which has the adapters.
        given: the modules that every implementation shares with the tests.

    Raises:
        ValueError: an edit does not fit; the message names its row.
        OSError: a file cannot be read.
    """
    files = {name: folder.parents[2] / name for name in target.modules}
    files[target.adapter] = folder / target.adapter
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}

    def code(now: dict[str, str], name: str, row: Wrong | None = None) -> Code:
        modules = tuple((_module_name(file), now[file]) for file in target.modules)
        facts = (False, "", ()) if row is None else (True, row.symptom, row.hints)
        source = now[target.adapter].encode()
        is_slow = row is not None and row.cost
        return Code(name, target, source, tuple(given), *facts, modules=modules, cost=is_slow)

    codes = [code(texts, "the engine")]
    for row in wrongs:
        if row.file not in texts:
            raise ValueError(f"{row.name}: {row.file} is not a file of {target.label}: {[*texts]}")
        change = {row.file: edited(texts[row.file], row.find, row.replace, row.name)}
        codes.append(code(texts | change, row.name, row))
    return codes


def _modules_of(adapter: Path, root: Path, given: Collection[str]) -> tuple[str, ...]:
    return tuple(imported_modules(adapter.read_bytes(), root, given))


def _module_name(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def read_pool(folder: Path, file: Path, given: Collection[str] = ()) -> Pool:
    """Return the published part of a pool.

    Args:
        folder: of the hunt.
        file: the list of targets and wrong implementations.
        given: the modules that every implementation shares with the tests, such as events.

    Raises:
        LabFolderError: it does not fit together; the message names file and row.
    """
    rows = read_toml(file)
    root = folder.parents[2]
    targets = [
        build(Target, row, file, names=tuple, unseen=tuple) for row in rows.get("target", [])
    ]
    try:
        targets = [
            replace(target, modules=_modules_of(folder / target.adapter, root, given))
            for target in targets
        ]
    except (SyntaxError, OSError) as error:
        raise LabFolderError(f"{file}: {error}") from None
    wrongs = [build(Wrong, row, file, hints=tuple) for row in rows.get("wrong", [])]
    labels = {target.label for target in targets}
    codes: list[Code] = []
    for row in wrongs:
        if row.name.partition("-")[0] not in labels:
            raise LabFolderError(f"{file}: {row.name} begins with none of {sorted(labels)}")
        if len(row.hints) != HINTS:
            raise LabFolderError(f"{file}: {row.name} has {len(row.hints)} hints, not {HINTS}")
    for target in targets:
        own = [row for row in wrongs if row.name.partition("-")[0] == target.label]
        try:
            codes += _built(target, own, folder, given)
        except (ValueError, OSError) as error:
            raise LabFolderError(f"{file}: {error}") from None
    return Pool(tuple(targets), tuple(codes))
