"""Turns Python literals, as models write them, into JSON without evaluating anything.

Only literals that JSON can express are read: strings, numbers, True, False, None, lists, tuples,
and dictionaries with string keys. Two forms that models also write are accepted: a set, as a list,
and an integer that begins with zeros.
"""

import json
import re
import sys
import unicodedata

from mini_vllm.text.json_scanner import DEEPEST
from mini_vllm.text.schemas import PYTHON_WORDS, canonical

_HEX = "[0-9a-fA-F]"
_NAME = r"[^}\\\n'\"]{0,99}"
_ESCAPE = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|([0-7]{{1,3}})|N{{([^}}]*)}}|(.))",
    re.DOTALL,
)
_SIMPLE = {
    "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\n": "",
}  # fmt: skip


class EscapeError(ValueError):
    """An escape that does not name a character.

    Attributes:
        place: the index of the escape in the text.
    """

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


def _complete(outside: str, inside: str = "") -> re.Pattern[str]:
    """Return a regex for the characters and complete escapes of a string.

    Args:
        outside: the characters that the string does not contain.
        inside: patterns that the string nevertheless contains.
    """
    return re.compile(
        rf"(?:[^\\{outside}]|{inside}\\x{_HEX}{{2}}|\\u{_HEX}{{4}}|\\U{_HEX}{{8}}|\\N{{{_NAME}}}"
        r"|\\[0-7]{3}|\\[0-7]{1,2}(?![0-7]|\Z)|\\[^xuUN0-7])*"
    )


_COMPLETE = {
    (quote, lines): _complete(quote if lines else f"\n{quote}")
    for quote in "'\""
    for lines in (False, True)
} | {
    (quote * 3, lines): _complete(quote, f"{quote}{{1,2}}(?!{quote}|\\Z)|")
    for quote in "'\""
    for lines in (False, True)
}
_INCOMPLETE = re.compile(
    rf"\\(?:x{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-7]{{1,2}}|N(?:{{{_NAME})?)?"
)
# A number that is written the same way in JSON.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_ZEROS = re.compile(r"(-?)0+([1-9]\d*)")
_TOKEN = re.compile(
    r"\s*(?:(?P<open>[\[({])|(?P<close>[\])}])|(?P<mark>[,:])"
    r"|(?P<string>[rRuU]?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"))"
    r"|(?P<word>[^\s\[\](){},:'\"]+))\s*",
    re.DOTALL,
)


def split_string(text: str, quote: str, lines: bool = False) -> tuple[str, str, bool]:
    """Split a string's inside: (the complete part, the rest, whether the rest is possible).

    The rest begins with the closing quote, or is an escape that more text may complete, or is
    invalid in a string, such as a line break unless `lines` allows it.
    """
    match = _COMPLETE[quote, lines].match(text)
    end = match.end() if match else 0
    rest = text[end:]
    closes = rest.startswith(quote) or quote.startswith(rest)
    possible = closes or _INCOMPLETE.fullmatch(rest) is not None
    return text[:end], rest, possible


def unescape(text: str) -> str:
    """Return the characters of a string's inside.

    Raises:
        EscapeError: an escape does not name a character.
    """
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if match[group]:
            code = int(match[group], base)
            if code > sys.maxunicode:
                raise EscapeError(f"{match[0]} is not a character", match.start())
            return chr(code)
    if match[5] is not None:
        try:
            return unicodedata.lookup(match[5])
        except KeyError:
            raise EscapeError(f"{match[0]} is not a character", match.start()) from None
    return _SIMPLE.get(match[6], f"\\{match[6]}")


def to_json(text: str, lines: bool = False) -> str:
    """Return a literal as JSON.

    Args:
        text: the literal.
        lines: whether strings may contain line breaks.

    Raises:
        ValueError: the text is not a literal of these kinds.
    """
    parts: list[str] = []
    opened: list[int] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"{text[place:]:.40} is not a Python literal")
        place = match.end()
        kind = match.lastgroup or ""
        token = match[kind]
        if kind == "word":
            parts.append(_word(token))
        elif kind == "string":
            parts.append(_string(token, lines))
        elif kind == "close":
            if not opened:
                raise ValueError(f"{token} closes nothing")
            _close(parts, opened.pop(), token)
        else:
            if kind == "open":
                if len(opened) == DEEPEST:
                    raise ValueError(f"more than {DEEPEST} brackets are open")
                opened.append(len(parts))
            parts.append(token)
    return canonical(json.loads(" ".join(parts)))


def _string(token: str, lines: bool) -> str:
    """Return a string as JSON; after `r`, its backslashes are characters like any others."""
    bare = token.lstrip("rRuU")
    if token[0] in "rR" and (lines or "\n" not in token):
        return canonical(bare[1:-1])
    inside, rest, _ = split_string(bare[1:], bare[0], lines)
    if rest != bare[0]:
        raise ValueError(f"{rest[0]!r} in a string")
    return canonical(unescape(inside))


def _word(word: str) -> str:
    """Return a number or a name of Python as JSON, and any other word unchanged."""
    if _NUMBER.fullmatch(word):
        return word
    zeros = _ZEROS.fullmatch(word)
    if zeros:
        return zeros[1] + zeros[2]
    if word in PYTHON_WORDS:
        return PYTHON_WORDS[word]
    for read in (_integer, float):
        try:
            return canonical(read(word))
        except ValueError:
            continue
    return word


def _integer(word: str) -> int:
    """Return an integer of any base, as Python spells it."""
    return int(word, 0)


def _close(parts: list[str], start: int, bracket: str) -> None:
    """Close the bracket that was opened at `start`, and join its parts into one."""
    inside = parts[start + 1 :]
    tuple_ = bracket == ")" and (not inside or "," in inside)
    if inside[-1:] == [","] and len(inside) > 1:
        inside.pop()
    if bracket == ")" and ":" in inside:
        raise ValueError("':' in a tuple")
    set_ = parts[start] + bracket == "{}" and inside and ":" not in inside
    brackets = "[]" if tuple_ or set_ else "  " if bracket == ")" else parts[start] + bracket
    parts[start:] = [" ".join([brackets[0], *inside, brackets[1]])]
