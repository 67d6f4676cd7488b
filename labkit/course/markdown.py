"""Markdown: the links of a text, with other targets in their place, and its headings."""

import re
from collections.abc import Callable

_CODE = re.compile(r"^(```+|~~~+).*?^\1|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)
# `](target)` and `](target "title")`; what stands between the brackets does not matter.
_TARGET = re.compile(r'\]\(([^()\s]+)(?=\)|\s+"[^"]*"\))')
_HEADING = re.compile(r"^(#{1,6}) (.*)$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def relink(text: str, new_target: Callable[[str, bool], str]) -> str:
    """Return a Markdown text with each link's target replaced; code is left alone.

    Args:
        text: the text.
        new_target: gets a target as it stands there, and whether it is that of an image.
    """
    shown = without_code(text)
    made, end = [], 0
    for match in _TARGET.finditer(shown):
        start, stop = match.span(1)
        opening = _opening(shown, match.start())
        is_image = opening > 0 and shown[opening - 1] == "!"
        made += [text[end:start], new_target(text[start:stop], is_image)]
        end = stop
    return "".join([*made, text[end:]])


def without_code(text: str) -> str:
    """Return a Markdown text of the same length with code blanked, so that places stay."""
    return _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _opening(text: str, closing: int) -> int:
    """Return where the bracket opens that is closed at `closing`."""
    depth = 0
    for place in range(closing, -1, -1):
        depth += {"]": 1, "[": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return 0


def leads_out(target: str) -> bool:
    """Tell whether a target is on another host, or a mail address: it has a scheme."""
    return _SCHEME.match(target) is not None


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the book make it."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def headings(text: str) -> list[tuple[int, int, str]]:
    """Return the headings of a Markdown text outside code: where each begins, its level, its text.

    The text is as it stands, with its markup.
    """
    return [
        (match.start(), len(match[1]), text[match.start(2) : match.end(2)].rstrip(" #"))
        for match in _HEADING.finditer(without_code(text))
    ]
