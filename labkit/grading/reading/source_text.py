"""The text of a source as Python reads it, and unusual things in it that a reader should look at.

A first line such as `# coding: utf7` makes Python read another text than an editor shows. Sources
are hostile: they are decoded by Python's own codecs only, and nothing is parsed or run.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from labkit.running.source import MOST_SOURCE_BYTES

# As PEP 263 has it, and the lines before it that may have one.
_CODING = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"[ \t\f]*(?:#.*)?\r?")
_PLAIN = ("utf-8", "ascii", "iso8859-1", "cp1252")
# Their time grows with the square of the length.
_SLOW = ("punycode", "idna")
# Names by their use; code for these labs needs none of them.
_UNUSUAL = {
    "runs text as code": "exec eval __import__ importlib runpy marshal pickle",
    "looks into the process": "_getframe f_locals f_globals f_back gc inspect settrace setprofile "
    "ctypes __subclasses__ __globals__ __code__ _current_frames",
    "uses files, processes or the network": "open os pathlib glob shutil subprocess socket mmap "
    "multiprocessing signal fork tempfile urllib http",
}
_WORDS = {word: group for group, words in _UNUSUAL.items() for word in words.split()}


def coding_of(source: bytes) -> str:
    """Return the encoding that a source's first two lines name, in Python's spelling, or ""."""
    for line in source.split(b"\n", 2)[:2]:
        if match := _CODING.match(line):
            name = match[1].decode("ascii", "replace")
            with suppress(LookupError, ValueError):
                return codecs.lookup(name).name
            return name
        if not _BLANK.fullmatch(line):
            break
    return ""


def text_of(source: bytes) -> str:
    """Return the text that Python reads; at most as many bytes as may be handed in are read."""
    data = source[:MOST_SOURCE_BYTES]
    coding = coding_of(data)
    if coding and coding not in (*_PLAIN[:1], *_SLOW):
        with suppress(Exception):
            text = data.decode(coding, "replace")
            if isinstance(text, str):
                return text.replace("\r\n", "\n")
    return data.decode("utf-8", "replace")


def unusual(source: bytes, names: Iterable[str]) -> Iterator[str]:
    """Yield the unusual things in a source, in words for the instructor.

    Args:
        source: the source.
        names: the names in it, without those in comments and texts.
    """
    coding = coding_of(source)
    if coding and coding not in _PLAIN:
        yield f"its coding line makes Python read another text: {coding[:40]}"
    present = sorted({*names} & _WORDS.keys())
    for group in _UNUSUAL:
        if words := [word for word in present if _WORDS[word] == group]:
            yield f"{group}: {', '.join(words)}"
