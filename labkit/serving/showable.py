"""The roles that the strip of a lab can show, from its `lab.toml`, and example texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from labkit.course.lab import PIPELINE, Lab, Serves
from labkit.running.racing import FILE as RACE

WHOLE = "whole"
# Roles whose pieces are ids; the pieces of other roles are characters.
_OF_IDS = ("tokens", PIPELINE, "frames", WHOLE)
_CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "São Paulo"}}</tool_call>'
_CHARACTERS = {
    "Emoji": "Grüße! 你好 🚀 🇫🇷",
    "Half a character": "so \\xf0\\x9f and on",
    "A broken byte": "caf\\xe9 \\xff!",
}
_EXAMPLES: Mapping[str, Mapping[str, str]] = {
    WHOLE: {"Emoji": "é 🚀!", "A broken byte": "a\\xff b"},
    "tokens": _CHARACTERS,
    "stops": {
        "A stop string": "This is the END of it.",
        "Nearly one": "The EN is not the eND, nor is E",
    },
    "calls": {
        "A tool call": f"I look.\n{_CALL} Done.",
        "No call": "a < b, <tool_box> and <tool",
        "A broken call": '<tool_call>{"name": 1}</tool_call> so',
    },
    "reasoning": {"Reasoning": "<think>2 and 2</think>It is 4.", "None": "It is <think>4."},
    "channel": {"A slow reader": "Nothing is lost on the way."},
}
_ALL = {
    "Everything": f"Grüße 🚀 {_CALL} Sent. END and not this",
    **_CHARACTERS,
    **_EXAMPLES["stops"],
}


@dataclass(frozen=True)
class Shown:
    """A role of a lab that its strip shows.

    Attributes:
        role: one of the roles of `[[serves]]`, or `whole`.
        class_name: of the lab.
        pieces: `ids` or `characters`.
        stops: whether it takes stop strings.
        naive: the naive way beside it, in words; "" for none.
        examples: texts to begin with, by name.
    """

    role: str
    class_name: str
    pieces: str
    stops: bool
    naive: str
    examples: Mapping[str, str]


def shown_of(lab: Lab) -> list[Shown]:
    """Return the roles that the strip of a lab can show; none for a lab that takes no text."""
    if lab.strip is not None:
        name = lab.strip.class_name
        return [Shown(WHOLE, name, "ids", False, "each byte alone", _EXAMPLES[WHOLE])]
    return [
        Shown(
            serves.role,
            serves.class_name,
            "ids" if _takes_ids(serves) else "characters",
            serves.role in (PIPELINE, "frames") or "stops" in serves.arguments,
            _naive_name(lab, serves),
            _EXAMPLES.get(serves.role, _ALL),
        )
        for serves in lab.serves
    ]


def _takes_ids(serves: Serves) -> bool:
    return serves.role in _OF_IDS or "tokens" in serves.arguments.values()


def _naive_name(lab: Lab, serves: Serves) -> str:
    if serves.role == "channel":
        return "a list of chunks"
    if serves.role == "frames":
        return ""
    if _takes_ids(serves):
        return "each token decoded alone"
    has_class = (lab.path / RACE).exists() and _class_of_race(lab) == serves.class_name
    return "keep everything and search it again" if has_class else ""


def _class_of_race(lab: Lab) -> str:
    """Return the class that a lab's race is about, without running it."""
    match = re.search(r'^CLASS = "(\w+)"', (lab.path / RACE).read_text("utf-8"), re.MULTILINE)
    return match[1] if match else ""
