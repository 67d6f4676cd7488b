"""Syntax that is newer than the oldest Python of the course.

A browser's Python is newer than that of many graders: code that passes there may be refused later.
"""

import ast
import io
import tokenize

OLDEST = (3, 11)


def newer_syntax(source: bytes) -> str | None:
    """Return which line of a source the oldest Python cannot read, and why, if this Python can read
    it; None if there is none.

    The parser knows its own history, but for f-strings: since PEP 701 (Python 3.12), their braces
    may hold the quotes of the string, backslashes, comments and line breaks.
    """
    try:
        ast.parse(source, feature_version=OLDEST)
    except SyntaxError as error:
        return _in_words(error.lineno or 1, error.msg) if _is_read(source) else None
    except ValueError:
        # Some Pythons say so of a null byte.
        return None
    return _in_f_strings(source)


def _is_read(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _in_f_strings(source: bytes) -> str | None:
    # The quotes of the f-strings around a token, the outermost first.
    quotes: list[str] = []
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_END":
            quotes.pop()
        elif quotes and (kind != "FSTRING_MIDDLE" or len(quotes) > 1):
            is_short = len(quotes[0]) == 1
            for part, is_newer in (
                ("the quotes of the f-string", quotes[0] in token.string),
                ("a backslash", "\\" in token.string),
                ("a comment", kind == "COMMENT"),
                ("a line break", kind == "NL" and is_short),
            ):
                if is_newer:
                    return _in_words(token.start[0], f"the braces of an f-string hold {part}")
        if kind == "FSTRING_START":
            quotes.append(token.string.lstrip("fFrR"))
    return None


def _in_words(line: int, reason: str) -> str:
    oldest = ".".join(map(str, OLDEST))
    return f"A grader with Python {oldest} cannot read line {line}: {reason.rstrip('.')}."
