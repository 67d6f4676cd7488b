r"""A text that fits a regular expression, such as the `pattern` of a schema.

A mask allows any text before the `.pdf` of `.+\.pdf$`, forever, so a model has to write `.pdf` by
itself. The text is made from the expression as `re` parses it.
"""

import re
import warnings

# The standard library has no public parser of expressions.
from re import _parser  # type: ignore[attr-defined]
from typing import Any

# Characters for a class that has none of the word's. A class of letters alone has its lowest.
_CHARS = "aA1_-. /:\né中"
# The most characters of a pattern, and of a part that repeats.
_MOST = 1000
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


def pattern_sample(pattern: str, word: str) -> str | None:
    """Return a short text for a pattern, or None if none could be made.

    The text is not matched: that could take forever for a hostile pattern, and a mask decides in
    any case.

    Args:
        pattern: a regular expression. An expression that Python does not read has no sample.
        word: the text for each part that may be any text.
    """
    if len(pattern) > _MOST:
        return None
    try:
        with warnings.catch_warnings():
            # The parser warns of `[[`, which may get another meaning.
            warnings.simplefilter("ignore")
            return _text(_parser.parse(pattern), word)
    except (re.error, RecursionError, OverflowError):
        return None


def _text(parts: Any, word: str) -> str:
    return "".join(_part(str(kind), value, word) for kind, value in parts)


def _part(kind: str, value: Any, word: str) -> str:
    match kind:
        case "LITERAL":
            return chr(value)
        case "NOT_LITERAL" | "ANY" | "IN":
            chars = (char for char in word + _CHARS if _fits(kind, value, char))
            return next(chars, None) or _low(value)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, inner = value
            if len(inner) == 1 and low <= len(word) <= high:
                kind, value = str(inner[0][0]), inner[0][1]
                for text in (word, word.lower(), word.upper()):
                    if all(_fits(kind, value, char) for char in text):
                        return text
            text, count = _text(inner, word), int(max(low, min(1, high)))
            if len(text) * count > _MOST:
                raise OverflowError
            return text * count
        case "SUBPATTERN":
            return _text(value[-1], word)
        case "ATOMIC_GROUP":
            return _text(value, word)
        case "BRANCH":
            return _text(value[1][0], word)
        case _:
            return ""


def _low(items: Any) -> str:
    """Return the first character of a class."""
    kind, value = items[0]
    return chr(value[0]) if str(kind) == "RANGE" else chr(value) if str(kind) == "LITERAL" else ""


def _fits(kind: str, value: Any, char: str) -> bool:
    match kind:
        case "LITERAL":
            return char == chr(value)
        case "NOT_LITERAL":
            return char != chr(value)
        case "ANY":
            return char != "\n"
        case "RANGE":
            return chr(value[0]) <= char <= chr(value[1])
        case "CATEGORY":
            _, _, name = str(value).partition("_")
            category = _CATEGORIES.get(name.removeprefix("NOT_"), "(?!)")
            # As in schemas, whose expressions are those of JavaScript.
            fits = re.match(category, char, re.ASCII) is not None
            return fits != name.startswith("NOT_")
        case "IN":
            negated = str(value[0][0]) == "NEGATE"
            return negated is not any(_fits(str(kind), item, char) for kind, item in value)
        case _:
            return False
