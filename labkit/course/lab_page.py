"""The generated parts of a lab's README: its files, and how to run its tests."""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from labkit.course.lab import COURSE, Lab

_PHASE = "../../README.md#running-the-tests-yourself"


def files_part(lab: Lab) -> str:
    """Return the list of a lab's files, as Markdown; those of the full course alone are marked."""
    editions = {lab.starter, lab.test_file, *lab.given_files, *lab.hunt_files}
    own = (path for path in lab.path.iterdir() if path.suffix in (".py", ".toml"))
    full = sorted(path for path in own if path not in editions and path != lab.solution)
    lines = [_starter(lab), _tests(lab), *_course_gives(lab)]
    lines.append(
        f"`{COURSE}/`: hints, questions and diagnoses for the commands. Some of them give the lab "
        "away."
    )
    text = "\n".join(map(_item, lines))
    if lab.solution.exists():
        lines = [
            "`solution.py`: the reference solution. Read it afterwards.",
            *map(_described, full),
        ]
        text += "\n".join(["\n<!-- full -->", *map(_item, lines), "<!-- /full -->"])
    return text


def run_part(lab: Lab) -> str:
    """Return how to run a lab's tests, as Markdown."""
    folder = lab.path.relative_to(lab.path.parents[2]).as_posix()
    commands = f"```bash\nmake lab N={lab.number}\nLAB_IMPL=starter pytest {folder} -q\n```\n"
    both = (
        "Run both in the repository's root. They test `starter.py`. "
        f"[Run one task, print, debug]({_PHASE})."
    )
    top = f"<!-- checkout -->\n{commands}\n{_filled(both)}\n<!-- /checkout -->"
    lines = [
        f"`{variable}=FILE make lab N={lab.number}` also tests with a "
        f"`{variable.removeprefix('LAB_').lower()}{Path(name).suffix}` of your own."
        for variable, name in lab.given_own.items()
    ]
    if lab.parts:
        parts = _joined([f"`{name}`" for name in lab.parts])
        numbers = [name.split("-")[1] for name in dict.fromkeys(lab.parts.values())]
        tests = "Tests that need it" if lab.starts_without_parts else "The tests"
        run = f"{tests} run {parts} from your lab{'s'[: len(numbers) - 1]} {_joined(numbers)}"
        full = (
            f"{run} if your code passes all tests there, and from the reference solutions "
            "otherwise. `LAB_PARTS=reference` always takes the reference solutions."
        )
        edition = f"{run}, so your code must pass all tests there first."
        if lab.starts_without_parts:
            edition += " Other tests run without it."
        marked = ["<!-- full -->", full, "<!-- /full -->", "<!-- edition", edition, "-->"]
        # A student edition has no markers, as it has no solution.
        lines += marked if lab.solution.exists() else [edition]
    return "\n".join([top, *([""] if lines else []), *map(_filled, lines)])


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> str:
    return textwrap.indent(_filled(text), "  ").replace("  ", "- ", 1)


def _joined(words: list[str]) -> str:
    """Return words as a list in prose: `03, 04 and 01`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _starter(lab: Lab) -> str:
    names = [f"`{name}`" for name in _names_to_write(lab.starter)]
    work = "your tests" if lab.hunt is not None else _joined(names)
    modules = _joined(["the standard library", *(f"`{name}`" for name in lab.given)])
    return f"`starter.py`: {work}. Write here. It may import only {modules}."


def _tests(lab: Lab) -> str:
    if lab.hunt is not None:
        return "`test_lab.py`: the scoring of your tests."
    return "`test_lab.py`: the tests. Each docstring states the rule that its test checks."


def _course_gives(lab: Lab) -> Iterator[str]:
    """Yield a line for each file, and for each folder of files, that the course gives to a lab."""
    folders: dict[Path, list[Path]] = {}
    for path in (*lab.given_files, *lab.hunt_files):
        if path.parent == lab.path:
            yield _described(path)
        elif path.is_relative_to(lab.path.parents[1]):
            folders.setdefault(path.parent, []).append(path)
    for folder, paths in folders.items():
        inside = folder.is_relative_to(lab.path)
        name = f"{folder.relative_to(lab.path) if inside else f'../../{folder.name}'}/"
        yield f"`{name}`: {_joined([f'`{path.name}`' for path in paths])}."


def _described(path: Path) -> str:
    return f"`{path.name}`: {_first_sentence(path)}"


def _first_sentence(path: Path) -> str:
    """Return how a program's docstring, or the comment atop a TOML file, begins."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        words = ast.get_docstring(ast.parse(text)) or ""
    else:
        words = re.sub(r"^# ?", "", text.partition("\n\n")[0], flags=re.MULTILINE)
    sentence = re.match(r".*?\.(?=\s|$)", " ".join(words.split()))
    return sentence[0][:1].lower() + sentence[0][1:] if sentence else ""


def _names_to_write(starter: Path) -> list[str]:
    """Return the functions and classes of a starter in which something is left to write."""
    nodes = ast.parse(starter.read_text("utf-8")).body
    named = (node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return [node.name for node in named if "NotImplementedError" in ast.unparse(node)]
