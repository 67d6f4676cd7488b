"""Gate: unclear wordings become fewer in every file, and never more.

    what waits                 ->    the held text
    an LF behind it            ->    an LF after it
    Where one does not pass    ->    If a lab does not pass

Each pattern has a ceiling per file, in `wording.toml`; a file without a ceiling may not match the
pattern. A ceiling only decreases: `make matrix` lowers it to the count. The gate does not know
grammar: a good sentence that matches is counted as well, so a file may keep a few matches.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from labkit.course.rows import read_toml
from labkit.gates.finding import Finding
from labkit.gates.promises.documents import documents

CEILINGS = "labkit/gates/text/wording.toml"
# The verbs before an indirect question, in which `what` is as it should be.
_ASKS = (
    "ask|asks|asked|know|knows|say|says|said|see|sees|show|shows|decide|decides|explain|explains|"
    "tell|tells|guess|predict|consider|learn|of"
)
PATTERNS = {
    "what": re.compile(
        rf"(?<!\w)(?<![?] )(?:(?!(?:{_ASKS})\b)\w+[ ,]+|[.;:,|] )what\b(?![^.;:]*\?)"
    ),
    "come": re.compile(r"\b[Cc](?:ome|omes|ame|oming)\b"),
    "one": re.compile(
        r"\b(?:such a|another|every|the last|the first) one\b|\bones\b|"
        r"\b(?:this|that|no|each) one(?=[.,;:)]| (?:is|was|has|may)\b|$)",
        re.IGNORECASE,
    ),
    "where": re.compile(
        r"(?:^|[.;:] )Where (?!.*\?)(?:a|an|the|no|one|it|nobody|that|there|this)\b", re.MULTILINE
    ),
    "of": re.compile(r"[.;:] Of \w+|, of (?:which|several|whom)\b"),
    "nobody": re.compile(r"\b(?:nobody|somebody|whoever|anybody)\b", re.IGNORECASE),
    "is no": re.compile(r"(?<![Tt]here )\b(?:is|are|was|were) no(?! longer| more)\b"),
    "words": re.compile(
        r"\b(?:mends?|mended|afresh|as new|for ever|lets? go of|on top(?! of)|is out|are out|"
        r"told from|told apart|is yours|are yours|by heart|stands? (?:in|for|at)|news)\b"
    ),
}
_CODE = re.compile(
    r"^```.*?^```|^ *(?:>>>|\.\.\. ).*?$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
# A message shorter than this is a name or a key.
_FEWEST_WORDS = 4


def wording_improves(root: Path) -> Iterator[Finding]:
    """Compare the counts of all files that have text for readers with their ceilings."""
    ceilings = read_toml(root / CEILINGS) if (root / CEILINGS).exists() else {}
    counts = counts_of(root)
    for place in sorted({*ceilings, *counts}):
        ceiling, count = ceilings.get(place, {}), counts.get(place, {})
        for name in PATTERNS:
            most, now = ceiling.get(name, 0), count.get(name, 0)
            if now > most:
                message = (
                    f"{now} times the wording {name!r}, and {most} are allowed; see {__name__}"
                )
                yield Finding(place, message)
            elif now < most:
                yield Finding(
                    place, f"{now} times the wording {name!r} instead of {most}: run make matrix"
                )


def lower_ceilings(root: Path) -> bool:
    """Lower all ceilings to the counts; return whether that changed the file."""
    path = root / CEILINGS
    ceilings, counts = read_toml(path), counts_of(root)
    rows = []
    for place, ceiling in sorted(ceilings.items()):
        count = counts.get(place, {})
        lower = {name: min(most, count.get(name, 0)) for name, most in ceiling.items()}
        row = ", ".join(f'"{name}" = {most}' for name, most in sorted(lower.items()) if most)
        rows += [f'"{place}" = {{ {row} }}'] * bool(row)
    text = "\n".join(["# Written by `make matrix`. A ceiling only goes down.", *rows, ""])
    changed = text != path.read_text("utf-8")
    path.write_text(text, encoding="utf-8")
    return changed


def counts_of(root: Path) -> dict[str, dict[str, int]]:
    """Return how often each pattern is in each file that has it, by path."""
    counts = {}
    for path in sorted(_files(root)):
        text = _prose(path)
        numbers = Counter({name: len(pattern.findall(text)) for name, pattern in PATTERNS.items()})
        if +numbers:
            counts[path.relative_to(root).as_posix()] = dict(+numbers)
    return counts


def _files(root: Path) -> Iterator[Path]:
    yield from documents(root)
    for folder in ("labkit", "mini_vllm", *(path.name for path in root.glob("phase-*"))):
        for pattern in ("*.py", "*.toml"):
            yield from (
                path for path in (root / folder).rglob(pattern) if path.name != "wording.toml"
            )


def _prose(path: Path) -> str:
    """Return the words of a file for readers, a paragraph in one line, without code."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        texts = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
        long = (
            text for text in texts if isinstance(text, str) and text.count(" ") >= _FEWEST_WORDS
        )
        comments = re.findall(r"^ *# (.*)$", text, re.MULTILINE)
        text = "\n\n".join([*long, "\n".join(comments)])
    # The probes' names are for maintainers.
    text = _CODE.sub("x", re.sub(r"^looks_like = \[[^]]*\]", "", text, flags=re.MULTILINE))
    return "\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
