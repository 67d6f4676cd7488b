"""The formats that a server reads: named by options, or shown by the chat template."""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from mini_vllm.text.detect import detect_format
from mini_vllm.text.formats import FORMATS, find_format
from mini_vllm.text.reasoning_formats import REASONING_FORMATS, find_reasoning_format

NONE = "none"


class ChosenFormat(NamedTuple):
    """A format, and the reason for it.

    Attributes:
        name: of the format, or None if no format is read.
        why: why it was chosen, for people.
    """

    name: str | None
    why: str


class ChosenFormats(NamedTuple):
    """The formats that a server reads."""

    tools: ChosenFormat
    reasoning: ChosenFormat

    def __str__(self) -> str:
        """Return two lines for the log."""
        return (
            f"  its tool calls          {self.tools.name or NONE} ({self.tools.why})\n"
            f"  its reasoning           {self.reasoning.name or NONE} ({self.reasoning.why})\n"
        )


def add_format_options(group: argparse._ArgumentGroup) -> None:
    """Add `--tool-call-parser` and `--reasoning-parser`, whose default is None."""
    for option, what, known, find in (
        ("--tool-call-parser", "tool calls", FORMATS, find_format),
        ("--reasoning-parser", "reasoning", REASONING_FORMATS, find_reasoning_format),
    ):
        group.add_argument(
            option,
            type=_known_to(find),
            metavar="NAME",
            help=f"format of {what}: {', '.join(sorted(known))}, an alias, or {NONE} "
            "(default: the format that the chat template shows)",
        )


def _known_to(find: Callable[[str], Any]) -> Callable[[str], str]:
    def name(text: str) -> str:
        try:
            if text != NONE:
                find(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    return name


def choose_formats(
    tools: str | None,
    reasoning: str | None,
    chat_template: str,
    written: str | None,
    said: str | None = None,
) -> ChosenFormats:
    """Return the formats to read.

    Args:
        tools: the name of the tool format, `none`, or None to detect it.
        reasoning: the same for the reasoning format.
        chat_template: the text of the template in which to detect them.
        written: the model's tool format, for a template that shows none.
        said: the reasoning format of a text in `say`, for a template that shows none.
    """
    formats = detect_format(chat_template)
    return ChosenFormats(
        _named(tools)
        or _shown(formats.tool_format, "--tool-call-parser", written, "as the model writes them"),
        _named(reasoning)
        or _shown(formats.reasoning_format, "--reasoning-parser", said, "as `say` may write it"),
    )


def _named(name: str | None) -> ChosenFormat | None:
    if name is None:
        return None
    return ChosenFormat(None if name == NONE else name, "as you asked")


def _shown(name: str | None, option: str, instead: str | None, why: str) -> ChosenFormat:
    if name is None and instead is not None:
        return ChosenFormat(instead, why)
    if name is None:
        return ChosenFormat(None, f"its chat template shows none; {option} names one")
    return ChosenFormat(name, f"its chat template shows it; {option} {NONE} turns it off")
