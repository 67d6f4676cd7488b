"""Which submissions are nearly the same, or contain a known source: how much, and where.

A source becomes a row of tokens for the structure of the code, not for its looks: comments,
docstrings, annotations of functions, layout, parentheses and last commas are dropped; a number is
`0`, a string is `""`, and a name is `n` unless it is Python's own or the tests call it. Every `K`
tokens in a row of one function are one fingerprint. The fingerprints of the starter are removed.
The likeness of two submissions is the share of fingerprints that both have (Jaccard). So new names,
another order of functions and another layout change little. For a known source, the share is that
of the smaller of the two: the source may be longer than the copied part, or shorter than the code
around the copy.

The idea is that of MOSS (Schleimer, Wilkerson and Aiken, Winnowing, SIGMOD 2003), which thins the
fingerprints out for the size of the web; submissions are few enough to keep all. Pairs are found
through their rarest fingerprints and without comparing each with each, and still none above the
threshold is missed (prefix filtering: Bayardo, Ma and Srikant, Scaling Up All Pairs Similarity
Search, WWW 2007). copydetect on PyPI compares all pairs and needs matplotlib.

Sources are hostile: nothing here parses or compiles them. One regular expression without
backtracking splits them into tokens, in time that grows with the length. The text is the one that
Python reads, whatever the coding line; and if a source names `exec` or `eval`, its long texts are
compared as code.

Limits:
- It points at pairs to look at. It does not show who copied, or that a student copied at all.
- It misses code rewritten from the idea: other control flow, other data structures, or a copy
  within one and a half times as much code of its own. Files with fewer than `FEWEST` fingerprints
  of their own are not compared.
- It does not see code that is packed (base64, zlib) or put together when it runs;
  `labkit.grading.reading.source_text` lists code that could do so.
- It reports likeness if a lab leaves little choice. Read the pairs.
"""

import builtins
import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from labkit.grading.reading.source_text import text_of

K = 8
FEWEST = 15
THRESHOLD = 0.4
# For a known source: the least share, and the least number of fingerprints.
KNOWN_THRESHOLD, FEWEST_KNOWN = 0.7, 30

# Every quantifier that could backtrack is possessive (`++`, `*+`), and every alternative completes
# once it has begun, so no input makes it slow.
_TOKEN = re.compile(
    r"""
    (?P<gap>[ \t\f\r]++|\\\r?\n|\#[^\n]*+)
    |(?P<line>\n)
    |(?P<text>[rRbBuUfF]{0,2}(?:
        "{3}(?:[^"\\]|\\.|"(?!""))*+(?:"{3})?
        |'{3}(?:[^'\\]|\\.|'(?!''))*+(?:'{3})?
        |"(?:[^"\\\n]|\\.)*+"?
        |'(?:[^'\\\n]|\\.)*+'?))
    |(?P<number>\.?\d(?:[\w.]|(?<=[eE])[-+])*+)
    |(?P<name>[^\W\d]\w*+)
    |(?P<sign>\*\*=?|//=?|<<=?|>>=?|->|\.\.\.|[-+*/%&|^@=<>!:]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_RUNS_TEXT = re.compile(r"\b(?:exec|eval)\b")
# Bounded, so that a line of nothing but `def` costs no more than others.
_CODE = re.compile(r"\b(?:def|lambda|class)\b[^\n:]{0,200}:")
# The fewest characters of a text that is compared as code.
_LONG_TEXT = 80
_PYTHON_NAMES = {
    *keyword.kwlist,
    *dir(builtins),
    *(name for kind in (str, bytes, list, dict, set) for name in dir(kind)),
}


class Token(NamedTuple):
    """The shape of a token without names and values, and its line, from 1."""

    shape: str
    line: int


@dataclass(frozen=True)
class Region:
    """Lines of one file that match lines of the other file; both ends included."""

    left: tuple[int, int]
    right: tuple[int, int]


@dataclass(frozen=True)
class Pair:
    """Two submissions that are alike.

    Attributes:
        left, right: their names, in order.
        likeness: the share of fingerprints that both have, up to 1.
        regions: the matching lines, in the order of `left`.
    """

    left: str
    right: str
    likeness: float
    regions: tuple[Region, ...]


def similar_pairs(
    sources: Mapping[str, bytes],
    starter: bytes,
    *,
    threshold: float = THRESHOLD,
    most: int = 200,
) -> list[Pair]:
    """Return the pairs that are at least as alike as `threshold`, the most alike first.

    If submissions are equal apart from names and layout, each is paired only with the first of
    them, and the first represents all of them in other pairs.

    Args:
        sources: the submissions by name.
        starter: the starter of the lab.
        threshold: above 0, at most 1.
        most: how many pairs to return.
    """
    names = _public_names(starter)
    starter_prints = _prints_in(starter, names)
    prints: dict[str, frozenset[int]] = {}
    for name in sorted(sources):
        own = _prints_in(sources[name], names) - starter_prints
        if len(own) >= FEWEST:
            prints[name] = own
    groups: dict[frozenset[int], list[str]] = defaultdict(list)
    for name, own in prints.items():
        groups[own].append(name)
    pairs = [(1.0, same[0], other) for same in groups.values() for other in same[1:]]
    pairs += alike_sets({same[0]: own for own, same in groups.items()}, threshold)
    return _greatest(pairs, sources, sources, names, starter_prints, most)


def is_compared(source: bytes, starter: bytes) -> bool:
    """Return whether a source has enough code of its own to be compared with others."""
    names = _public_names(starter)
    return len(_prints_in(source, names) - _prints_in(starter, names)) >= FEWEST


def known_in(
    sources: Mapping[str, bytes], known: Mapping[str, bytes], starter: bytes, *, most: int = 200
) -> list[Pair]:
    """Return the places of known sources in submissions, the greatest share first.

    Args:
        sources: the submissions by name: `left` in a pair.
        known: other sources by name, such as the engine's modules: `right` in a pair.
        starter: the starter of the lab.
        most: how many pairs to return.
    """
    names = _public_names(starter)
    starter_prints = _prints_in(starter, names)

    def prints(files: Mapping[str, bytes]) -> dict[str, frozenset[int]]:
        rows = ((name, _prints_in(source, names)) for name, source in sorted(files.items()))
        return {name: row - starter_prints for name, row in rows}

    others = prints(known)
    pairs = []
    for name, own in prints(sources).items():
        for other, theirs in others.items():
            shared = len(own & theirs)
            share = shared / max(1, min(len(own), len(theirs)))
            if share >= KNOWN_THRESHOLD and shared >= FEWEST_KNOWN:
                pairs.append((share, name, other))
    return _greatest(pairs, sources, known, names, starter_prints, most)


def _greatest(
    pairs: list[tuple[float, str, str]],
    sources: Mapping[str, bytes],
    others: Mapping[str, bytes],
    names: frozenset[str],
    starter_prints: frozenset[int],
    most: int,
) -> list[Pair]:
    """Return the pairs with the greatest shares, with their common regions."""
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    return [
        Pair(left, right, round(share, 3), _regions(tokens(sources[left], names),
             tokens(others[right], names), starter_prints))
        for share, left, right in pairs[:most]
    ]  # fmt: skip


def tokens(source: bytes, names: frozenset[str] = frozenset()) -> list[Token]:
    """Return the tokens of a source, which need not be Python; see the module for the rules.

    Args:
        source: the source; at most as many bytes as may be handed in are read.
        names: the names to keep besides Python's own.
    """
    text = text_of(source)
    row = _tokens(text, names)
    if _RUNS_TEXT.search(text):
        row += _in_texts(text, names)
        row.sort(key=lambda token: token.line)
    return row


def names_in(source: bytes) -> frozenset[str]:
    """Return the names in a source, without those in comments and texts."""
    return frozenset(
        match[0] for match in _TOKEN.finditer(text_of(source)) if match.lastgroup == "name"
    )


def _in_texts(text: str, names: frozenset[str]) -> Iterator[Token]:
    """Yield the tokens of the code in long texts, each with the line at which its text begins."""
    line, end = 1, 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "text" or len(match[0]) < _LONG_TEXT:
            continue
        line += text.count("\n", end, match.start())
        end = match.start()
        body = _body(match[0])
        with suppress(ValueError):
            body = body.encode("latin-1", "backslashreplace").decode("unicode_escape", "replace")
        if not _CODE.search(body):
            continue
        yield from (Token(token.shape, line) for token in _tokens(body, names))


def _body(literal: str) -> str:
    """Return the text of a literal without its prefix and its quotes, and with escapes."""
    body = literal.lstrip("rRbBuUfF")
    quotes = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    return body.removeprefix(quotes).removesuffix(quotes)


def _tokens(text: str, names: frozenset[str]) -> list[Token]:
    row: list[Token] = []
    line, fresh, depth = 1, True, 0
    docstring = False
    annotations = _Annotations()
    for match in _TOKEN.finditer(text):
        kind, word = match.lastgroup, match[0]
        if kind == "gap":
            line += word.count("\n")
            continue
        if kind == "line":
            if docstring:
                row.pop()
            docstring, fresh, line = False, True, line + 1
            annotations.end_line(depth)
            continue
        docstring = kind == "text" and fresh and not depth
        depth += (word in "([{") - (word in ")]}")
        if word in ")]}" and row and row[-1].shape == ",":
            row.pop()
        dropped = annotations.has(word, depth) or word in "()"
        # Parentheses vary with the layout; adjacent texts are one text.
        if not dropped and not (kind == "text" and row and row[-1].shape == '""'):
            row.append(Token(_shape(str(kind), word, names), line))
        line += word.count("\n")
        fresh = False
    return row


class _Annotations:
    """Finds the words in the head of a `def` that annotate: a copier removes them."""

    def __init__(self) -> None:
        # The depth in brackets of the `def` whose head is read, -1 for none.
        self._depth = -1
        self._inside = False

    def has(self, word: str, depth: int) -> bool:
        """Take the next word, with the depth after it; return whether it annotates."""
        if word == "def":
            self._depth, self._inside = depth, False
        elif self._depth >= 0:
            here = depth - self._depth, word
            if here in ((1, ":"), (0, "->")):
                self._inside = True
            elif here in ((1, ","), (1, "="), (0, ")"), (0, ":")):
                self._inside = False
                if word == ":":
                    self._depth = -1
        return self._inside

    def end_line(self, depth: int) -> None:
        """Take the end of a line: a head continues only inside brackets."""
        if depth <= self._depth:
            self._depth, self._inside = -1, False


def _shape(kind: str, word: str, names: frozenset[str]) -> str:
    if kind == "text":
        return '""'
    if kind == "number":
        return "0"
    if kind == "name" and word not in _PYTHON_NAMES and word not in names:
        return "n"
    return word


def _public_names(starter: bytes) -> frozenset[str]:
    """Return the names of the starter's functions and classes that tests call."""
    names = re.findall(r"\b(?:def|class) ([a-zA-Z]\w*)", starter.decode("utf-8", "replace"))
    return frozenset(names)


# Each submission of a cohort is compared with the others, then with known sources.
@lru_cache(maxsize=2_048)
def _prints_in(source: bytes, names: frozenset[str]) -> frozenset[int]:
    """Return the fingerprints of a source."""
    return frozenset(print for _, print in _prints(tokens(source, names)))


def _prints(row: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the position and the fingerprint of every `K` tokens in a row of one function."""
    shapes = [token.shape for token in row]
    starts = [i for i, shape in enumerate(shapes) if shape in ("def", "class")]
    for begin, end in pairwise([0, *starts, len(shapes)]):
        for start in range(begin, end - K + 1):
            gram = "\n".join(shapes[start : start + K]).encode("utf-8", "surrogatepass")
            yield start, int.from_bytes(blake2b(gram, digest_size=8).digest(), "big")


def alike_sets(
    prints: Mapping[str, frozenset[int]], threshold: float
) -> Iterator[tuple[float, str, str]]:
    """Yield all pairs whose likeness is at least `threshold`.

    Two such sets share one of their rarest prints: if none of the first `n - ceil(threshold * n)
    + 1` of either is in the other, too few are left. So only those are looked up.
    """
    count = Counter(print for own in prints.values() for print in own)
    holders: dict[int, list[str]] = defaultdict(list)
    for name, own in prints.items():
        needed = ceil(threshold * len(own) - 1e-9)
        rarest = sorted(own, key=lambda print: (count[print], print))[: len(own) - needed + 1]
        for other in sorted({other for print in rarest for other in holders[print]}):
            shared = len(own & prints[other])
            likeness = shared / (len(own) + len(prints[other]) - shared)
            if likeness >= threshold:
                yield likeness, other, name
        for print in rarest:
            if count[print] > 1:
                holders[print].append(name)


def _regions(
    left: Sequence[Token], right: Sequence[Token], starter_prints: frozenset[int]
) -> tuple[Region, ...]:
    """Return where the rows agree, longest run first from each position of `left`."""
    places: dict[int, list[int]] = defaultdict(list)
    for start, print in _prints(right):
        if print not in starter_prints:
            places[print].append(start)
    regions: list[Region] = []
    end = 0
    for start, print in _prints(left):
        # A few candidates suffice, and bound the work on code that repeats itself.
        if start < end or print not in places:
            continue
        runs = [(_run(left, start, right, place), -place) for place in places[print][:8]]
        length, place = max(runs)
        end = start + length
        regions.append(
            Region(
                (left[start].line, left[end - 1].line),
                (right[-place].line, right[length - 1 - place].line),
            )
        )
    return tuple(regions)


def _run(left: Sequence[Token], start: int, right: Sequence[Token], place: int) -> int:
    length = K
    most = min(len(left) - start, len(right) - place)
    while length < most and left[start + length].shape == right[place + length].shape:
        length += 1
    return length
