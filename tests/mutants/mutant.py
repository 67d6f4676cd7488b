"""The data of the mutants, and how one is put into a tree.

There is one TOML file a room:

    sources = ["mini_vllm/text"]    # where its code is; paths that do not exist are skipped
    tests = ["tests/text"]          # what judges a mutant that names no tests of its own

    [[mutant]]
    name = "stop-one-too-few"       # no other mutant has it
    find = "a < b"                  # code that occurs exactly once in the sources
    replace = "a <= b"
    tests = ["tests/text/test_stop.py", "tests/text"]   # optional
    old = "survived"                # optional: what tests of an earlier tree said

The first three of each file are quick to kill: `.ci/run` runs them, and `make soak` all.

`find` matches at any indentation: write several lines as if the first began at the margin. `tests`
are files and folders, run one after the other until one fails; the mutant survives if none does.
Those that do not exist are skipped; if that leaves none, the tests of the room judge.
"""

import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOMS = sorted(path.stem for path in HERE.glob("*.toml"))


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    room: str
    name: str
    find: str
    replace: str
    sources: list[str]
    tests: list[str]
    tests_of_room: list[str]

    def tests_in(self, root: Path) -> list[str]:
        """Return the tests that judge it in a tree."""
        own, all_ = (
            [t for t in ts if (root / t).exists()] for ts in (self.tests, self.tests_of_room)
        )
        return own or all_

    def edit(self, root: Path) -> tuple[Path, str] | str:
        """Return the file to change in a tree and its new text, or why there is none."""
        lines = (re.escape(line.strip()) for line in self.find.split("\n"))
        pattern = re.compile(r" *\n *".join(lines))
        tops = [root / source for source in self.sources]
        paths = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*.py"))]
        texts = {path: path.read_text(encoding="utf-8") for path in paths}
        found = [(path, match) for path in paths for match in pattern.finditer(texts[path])]
        if len(found) != 1:
            return f"find occurs {len(found)} times"
        (path, match), = found  # fmt: skip
        before, after = texts[path][: match.start()], texts[path][match.end() :]
        line = (before + match[0]).split("\n")[before.count("\n")]
        margin = " " * (len(line) - len(line.lstrip(" ")))
        text = before + textwrap.indent(self.replace, margin)[len(margin) :] + after
        try:
            compile(text, str(path), "exec")
        except SyntaxError as error:
            return f"the result is not valid Python: {error}"
        return path, text


def read_room(room: str) -> Iterator[Mutant]:
    """Return the mutants of a room."""
    data = tomllib.loads((HERE / f"{room}.toml").read_text(encoding="utf-8"))
    for row in data["mutant"]:
        find, replace = row["find"].strip("\n"), row["replace"].strip("\n")
        tests = row.get("tests", data["tests"])
        yield Mutant(room, row["name"], find, replace, data["sources"], tests, data["tests"])
