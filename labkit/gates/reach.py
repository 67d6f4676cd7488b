"""The reach of a change: the gates that it can affect, and their labs.

    labkit/running/racing.py          gate races, all labs (its code imports it); gate arrows
    labs/lab-04-.../course/bugs.toml  bugs and diagnoses of lab 04, readmes; a hunt of lab 04
    mini_vllm/text/utf8.py            every gate that runs the labs whose files import it
    pyproject.toml                    everything

The reach through imports is derived from the sources. `READS` lists the files of a lab's folder
that each gate reads; `tests/test_reach.py` watches which files each gate opens.
"""

import re
import subprocess
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatch
from functools import cache, lru_cache
from pathlib import Path

from labkit.course.hints import FILE as HINTS
from labkit.course.imports import direct_imports, named_modules
from labkit.course.lab import BUGS, FACTS, PRISTINE, ROOT, Lab
from labkit.course.predictions import FILE as PREDICTIONS
from labkit.errors import UsageError
from labkit.gates import GATES
from labkit.gates.attempts import FOLDER as ATTEMPTS
from labkit.gates.finding import takes_labs
from labkit.running.diagnose import FILE as MISTAKES
from labkit.running.racing import FILE as RACE

_RUN = (FACTS, "test_lab.py", MISTAKES)
# The files of a lab's folder that a gate reads. A gate that is not named reads the whole
# repository.
READS = {
    "marks": (FACTS, "test_lab.py"),
    "pristine": (FACTS, "starter.py", PRISTINE),
    "signatures": (FACTS, PRISTINE, "solution.py"),
    "readmes": ("*",),
    "predictions": (FACTS, PREDICTIONS, "solution.py"),
    "diagnoses": (FACTS, BUGS, MISTAKES, "solution.py"),
    "races": (FACTS, RACE, "solution.py"),
    "arrows": (FACTS, PRISTINE, "solution.py"),
    "solution": (*_RUN, "solution.py"),
    "starter": (*_RUN, PRISTINE),
    "order": (*_RUN, PRISTINE),
    "bugs": (*_RUN, BUGS, "solution.py"),
    "attempts": _RUN,
    "tables": (FACTS, "test_lab.py", "solution.py"),
    "pools": (FACTS, "test_lab.py", BUGS, "solution.py"),
    "clients": (FACTS, "client.toml", BUGS, "solution.py"),
    "promises": ("*",),
}  # fmt: skip
# These gates run pytest, so the files that pytest loads belong to their code.
_BY_PYTEST = ("solution", "starter", "order", "bugs", "attempts")
_OF_ATTEMPTS = ("order", "attempts")
_PACKAGES = ("labkit", "mini_vllm")
# It imports the code of every gate.
_REGISTER = "labkit/gates/__init__.py"
# The files that decide which gates run: the reach of a change in them is unknown.
_MACHINERY = (_REGISTER, "labkit/gates/command.py", "labkit/gates/reach.py")
_BASE = "labkit/gates/finding.py"
Reached = dict[str, list[Lab] | None]
# By gate, names of labs; None for the whole repository.
_Readers = dict[str, set[str] | None]


class Reach:
    """The reach of files in a repository.

    Args:
        root: the repository.
        labs: the labs of the repository.

    Attributes:
        unknown: the files passed to `of` that reach everything.
    """

    def __init__(self, root: Path, labs: Collection[Lab]) -> None:
        self._root = root
        self._labs = {lab.name: lab for lab in labs}
        self.unknown: list[str] = []

    def of(self, files: Iterable[str]) -> Reached:
        """Return by gate the labs that files can reach; None means all that the gate looks at.

        Args:
            files: their paths below the root.
        """
        reached: dict[str, set[str]] = {name: set() for name in GATES}
        whole: set[str] = set()
        for file in files:
            whole |= GATES.keys() - READS.keys()
            readers = self._readers(file)
            if readers is None:
                self.unknown.append(file)
                readers = dict.fromkeys(GATES)
            for gate, labs in readers.items():
                if labs is None:
                    whole.add(gate)
                else:
                    reached[gate] |= labs
        return {
            gate: None if gate in whole else [*map(self._labs.__getitem__, self._in_order(names))]
            for gate, names in reached.items()
        }

    def _in_order(self, names: set[str]) -> list[str]:
        return [name for name in self._labs if name in names]

    def _readers(self, file: str) -> _Readers | None:
        """Return the readers of a file; None if they are not known."""
        for lab in self._labs.values():
            folder = lab.path.relative_to(self._root).as_posix()
            if file.startswith(f"{folder}/"):
                return self._of_lab(lab, file.removeprefix(f"{folder}/"))
            if file.startswith(f"{ATTEMPTS}/{lab.number}/"):
                return {gate: {lab.name} for gate in _OF_ATTEMPTS}
        if file in (*_MACHINERY, *_closure(ROOT / _BASE)):
            return None
        # The output of a command may depend on any file.
        promises: _Readers = {"promises": None}
        readers = {**self._of_given(file), **self._of_code(file)}
        if file.endswith(".md") or file == "Makefile":
            readers["readmes"] = None
        if file.startswith("tests/") and not file.startswith(f"{ATTEMPTS}/"):
            # `make test` runs it.
            return promises
        return {**readers, **promises} if readers else None

    def _of_lab(self, lab: Lab, name: str) -> _Readers | None:
        """Return the readers of a file of a lab's folder."""
        labs = {lab.name, *self._built_on(lab, name)}
        path = lab.path / name
        receivers = {other.name for other in self._labs.values() if path in _given_to(other)}
        readers: _Readers = {}
        for gate, patterns in READS.items():
            if any(fnmatch(name, pattern) for pattern in patterns):
                readers[gate] = set(labs)
            if receivers and takes_labs(GATES[gate]):
                readers[gate] = (readers.get(gate) or set()) | receivers
        if (
            readers.keys() <= {"readmes", "promises"}
            and not fnmatch(name, "*.md")
            and name != HINTS
        ):
            return None
        # A lab's README is a document as well, and the ladder is made of all labs.
        return {**readers, "readmes": None}

    def _built_on(self, lab: Lab, name: str) -> Iterator[str]:
        """Yield the names of the labs that use a file of a lab: its solution, or all for a hunt."""
        for other in self._labs.values():
            parts = other.parts.values() if name in ("solution.py", FACTS) else ()
            hunted = [target.lab for target in other.pool.targets] if other.hunt else []
            if lab.name in (*parts, *hunted):
                yield other.name

    def _of_given(self, file: str) -> _Readers:
        """Return the labs that hand a file to their code, or import it for that."""
        readers: dict[str, set[str]] = {}
        for lab in self._labs.values():
            for gate in READS:
                if takes_labs(GATES[gate]) and self._reads(gate, lab, file):
                    readers.setdefault(gate, set()).add(lab.name)
        return {**readers}

    def _reads(self, gate: str, lab: Lab, file: str) -> bool:
        path = self._root / file
        if path in _given_to(lab):
            return True
        own = [
            path
            for path in lab.path.rglob("*.py*")
            if any(fnmatch(path.relative_to(lab.path).as_posix(), name) for name in READS[gate])
        ]
        parts = [self._labs[name].solution for name in lab.parts.values() if name in self._labs]
        roots = [*own, *parts, *(p for p in _given_to(lab) if p.suffix == ".py")]
        modules = {f"{name.replace('.', '/')}.py" for name in lab.given}
        return file in modules or any(file in _closure(root) for root in roots if root.is_file())

    def _of_code(self, file: str) -> _Readers:
        """Return the gates whose code includes a file of a package, or one that pytest loads."""
        package = file.partition("/")[0]
        if package not in _PACKAGES or not file.endswith(".py"):
            return dict.fromkeys(_BY_PYTEST) if file == "conftest.py" else {}
        if not (ROOT / file).is_file():
            return {}
        # import-linter looks at every file of a package.
        readers: _Readers = {"arrows": None}
        for gate in READS:
            if file in _code_of(gate):
                readers[gate] = None
        return readers


def _given_to(lab: Lab) -> tuple[Path, ...]:
    return (*lab.given_files, *lab.hunt_files)


@cache
def _code_of(gate: str) -> frozenset[str]:
    """Return the files of the packages that the code of a gate imports."""
    module = ROOT / f"{GATES[gate].__module__.replace('.', '/')}.py"
    roots = [module]
    if gate in _BY_PYTEST:
        roots.append(ROOT / "conftest.py")
    return frozenset[str]().union(*(_closure(root) for root in roots if root.is_file()))


@lru_cache(maxsize=4096)
def _closure(root: Path) -> frozenset[str]:
    """Return the files of the packages that a file imports, or names as modules to be imported."""
    files: set[str] = set()
    waiting = {root}
    while waiting:
        path = waiting.pop()
        names = _imports(path) - files - {_REGISTER}
        files |= names
        waiting |= {ROOT / name for name in names}
    if root.is_relative_to(ROOT) and root.relative_to(ROOT).parts[0] in _PACKAGES:
        files.add(root.relative_to(ROOT).as_posix())
    return frozenset(files)


@lru_cache(maxsize=4096)
def _imports(path: Path) -> frozenset[str]:
    """Return the files of the packages that a file imports itself; a missing one imports none."""
    try:
        source = path.read_bytes()
        names = direct_imports(source) | named_modules(source)
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    return frozenset(name for name in names if (ROOT / name).is_file())


def changed_files(root: Path, commit: str) -> tuple[list[str], str]:
    """Return the files that differ from a commit, and the name of that commit.

    Args:
        root: the repository.
        commit: its name; "" for the point at which the branch left its upstream or `origin/main`,
            or for `HEAD` if there is neither. Untracked files count, if git does not ignore them.

    Raises:
        UsageError: there is no such commit, or no git.
    """
    if commit:
        base = commit
        if _git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}") is None:
            raise UsageError(f"--changed {commit}: git knows no commit of this name in {root}")
    else:
        since = (_git(root, "merge-base", "HEAD", name) for name in ("@{upstream}", "origin/main"))
        base = next((commits[0] for commits in since if commits), "HEAD")
    differ = _git(root, "diff", "--name-only", "--no-renames", "--relative", "-z", base)
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if differ is None or new is None:
        raise UsageError(f"--changed asks git, which knows no commit in {root}")
    return sorted({*differ, *new}), base


def _git(root: Path, *arguments: str) -> list[str] | None:
    """Return the lines that git prints, None if it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return re.findall(r"[^\0\n]+", done.stdout) if done.returncode == 0 else None
