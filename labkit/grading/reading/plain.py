"""Text that others chose, made fit for reports: it shows what it is, and is the same every time.

But: it does not quote for HTML, XML or CSV. Each report does that itself.
"""

import re

MOST_CHARACTERS = 4_000
# Written words need these, though Python counts them as not printable.
_JOINERS = "\u00a0\u200c\u200d\u3000"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,}\b")


def printable(text: str, most: int = MOST_CHARACTERS) -> str:
    r"""Return `text` without what a terminal obeys or a file cannot hold.

    Control characters, marks of writing direction and lone surrogates become escapes, `\x1b`; lines
    and tabs stay. What is too long is cut.
    """
    if len(text) > most:
        text = f"{text[:most]}… ({len(text)} characters)"
    return "".join(c if c.isprintable() or c in "\n\t" + _JOINERS else _escape(c) for c in text)


def one_line(text: str) -> str:
    """Return `text` as `printable` does, its lines and tabs as escapes too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def repeatable(text: str) -> str:
    """Return `text` as `printable` does, without addresses in memory: they change at each run."""
    return _ADDRESS.sub("0x…", printable(text))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
