"""Python literals as models write them, to JSON. Nothing is evaluated.

But: only what JSON has: strings, numbers in JSON's spelling, True, False, None, lists, tuples and
dictionaries with string keys.
"""

import json
import re
import unicodedata

from mini_vllm.text.schemas import canonical

_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|([0-7]{{1,3}})|N{{([^}}]*)}}|(.))",
    re.DOTALL,
)
_SIMPLE = {
    "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\n": "",
}  # fmt: skip


def _complete(quote: str) -> re.Pattern[str]:
    """Return what matches the characters and complete escapes of a string."""
    return re.compile(
        rf"(?:[^\\\n{quote}]|\\x{_HEX}{{2}}|\\u{_HEX}{{4}}|\\U{_HEX}{{8}}|\\N{{[^}}\\\n{quote}]*}}"
        r"|\\[0-7]{3}|\\[0-7]{1,2}(?![0-7]|\Z)|\\[^xuUN0-7])*"
    )


_COMPLETE = {quote: _complete(quote) for quote in "'\""}
_INCOMPLETE = re.compile(
    rf"\\(?:x{_HEX}?|u{_HEX}{{0,3}}|U{_HEX}{{0,7}}|[0-7]{{1,2}}|N(?:{{[^}}\\\n'\"]{{0,99}})?)?"
)
_TOKEN = re.compile(
    r"\s*(?:(?P<open>[\[({])|(?P<close>[\])}])|(?P<mark>[,:])|(?P<word>[^\s\[\](){},:'\"]+)"
    r"|(?P<string>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"))\s*",
    re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_OPEN = {"(": "["}
_CLOSE = {")": "]"}


def split_string(text: str, quote: str) -> tuple[str, str, bool]:
    """Return (what is complete of a string's inside, the rest, whether the rest is possible).

    The rest begins with the closing quote, is an escape that more text may complete, or is not
    possible in a string.
    """
    match = _COMPLETE[quote].match(text)
    end = match.end() if match else 0
    rest = text[end:]
    possible = not rest or rest[0] == quote or _INCOMPLETE.fullmatch(rest) is not None
    return text[:end], rest, possible


def unescape(text: str) -> str:
    """Return the characters of a string's inside.

    Raises:
        ValueError: an escape names no character.
    """
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    for group, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
        if match[group]:
            return chr(int(match[group], base))
    if match[5] is not None:
        try:
            return unicodedata.lookup(match[5])
        except KeyError:
            raise ValueError(f"no character is named {match[5]}") from None
    return _SIMPLE.get(match[6], f"\\{match[6]}")


def to_json(text: str) -> str:
    """Return a literal as JSON.

    Raises:
        ValueError: it is no such literal.
    """
    parts: list[str] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"{text[place:]:.40} is no Python literal")
        place = match.end()
        if match["string"]:
            parts.append(canonical(unescape(match["string"][1:-1])))
        elif match["close"]:
            if parts and parts[-1] == ",":
                parts.pop()
            parts.append(_CLOSE.get(match["close"], match["close"]))
        else:
            token = match["open"] or match["mark"] or match["word"]
            parts.append(_OPEN.get(token, _WORDS.get(token, token)))
    try:
        return canonical(json.loads(" ".join(parts)))
    except RecursionError:
        raise ValueError("too many brackets") from None
