"""Markdown: the links of a text, with other targets in their place, and its headings."""

import re
from collections.abc import Callable

_CODE = re.compile(r"^(```+|~~~+).*?^\1|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)
# `](target)` and `](target "title")`; the text between the brackets is ignored.
_TARGET = re.compile(r'\]\(([^()\s]+)(?=\)|\s+"[^"]*"\))')
_HEADING = re.compile(r"^(#{1,6}) (.*)$", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def relink(text: str, new_target: Callable[[str, bool], str]) -> str:
    """Return a Markdown text with each link's target replaced; code is left alone.

    Args:
        text: the text.
        new_target: gets the written target, and whether it is the target of an image.
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
    """Return the place of the opening bracket whose closing bracket is at `closing`."""
    depth = 0
    for place in range(closing, -1, -1):
        depth += {"]": 1, "[": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return 0


def leads_out(target: str) -> bool:
    """Return whether a target is on another host, or a mail address: it has a scheme."""
    return _SCHEME.match(target) is not None


def slug(heading: str) -> str:
    """Return the anchor of a heading, the same as GitHub's and the book's."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def headings(text: str) -> list[tuple[int, int, str]]:
    """Return the headings of a Markdown text outside code: the place, level and text of each.

    The text includes its markup.
    """
    return [
        (match.start(), len(match[1]), text[match.start(2) : match.end(2)].rstrip(" #"))
        for match in _HEADING.finditer(without_code(text))
    ]
