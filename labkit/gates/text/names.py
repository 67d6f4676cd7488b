"""Gate: names in the product are nouns of the field, not participles or pronouns.

    found = pattern.search(text)       ->    match = pattern.search(text)
    for one in submissions:            ->    for submission in submissions:

A participle says what was done to a thing, so it soon names fifteen different things.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from labkit.gates.finding import Finding

PRODUCT = ("labkit", "mini_vllm")
NEVER = frozenset(["told", "found", "asked", "wanted", "kept"])
# What the course hands to a lab's code, and tests that it gives away: a name in these rooms.
GIVEN = "given"
_DEALS_WITH_GIVEN = ("labkit/course/", "labkit/gates/", "labkit/isolation/", "labkit/running/")
# The first of two things that are compared: the second has one of these names.
ONE, SECOND = "one", frozenset(["other", "another"])


def names_are_nouns(root: Path) -> Iterator[Finding]:
    """Check the names of variables, parameters, attributes, functions and classes."""
    for path in (path for folder in PRODUCT for path in sorted((root / folder).rglob("*.py"))):
        place = path.relative_to(root).as_posix()
        for word, line in _riddles(ast.parse(path.read_bytes()), place):
            message = f"the name `{word}` does not say what this is: take the noun of the thing"
            yield Finding(f"{place}:{line}", message)


def _riddles(tree: ast.Module, place: str) -> Iterator[tuple[str, int]]:
    """Yield each name that says nothing, once, and its first line."""
    never = NEVER if place.startswith(_DEALS_WITH_GIVEN) else NEVER | {GIVEN}
    first: dict[str, int] = {}
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names: dict[str, int] = {}
        for name, line in _names(scope):
            names[name] = min(line, names.get(name, line))
        for word in names.keys() & (never if names.keys() & SECOND else never | {ONE}):
            if word != ONE or not isinstance(scope, ast.Module):
                first.setdefault(word, names[word])
    yield from sorted(first.items(), key=lambda item: (item[1], item[0]))


def _names(scope: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(scope):
        match node:
            case ast.Attribute(attr="given"):
                pass
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name.strip("_"), node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name.strip("_"), node.lineno
            case ast.ClassDef(name=name):
                yield name.strip("_").lower(), node.lineno
