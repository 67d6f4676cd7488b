"""The tool-call formats, one table each, in files by the form of a call.

In each table `content` is the text around calls, and `broken` skips the rest of a malformed call.

The marker that closes a call may be missing before the next opener and, unless the text was cut
off, at the end of the text. The call is then complete if the model wrote a JSON object up to its
last brace, or closed all parameters.
"""

import difflib

from mini_vllm.text.formats import (
    elements,
    gemma,
    harmony,
    headers,
    invokes,
    json_calls,
    python_calls,
    xtml,
)
from mini_vllm.text.stream_parser import Format

_FILES = (json_calls, python_calls, elements, gemma, headers, harmony, invokes, xtml)
FORMATS = {
    format.name: format
    for file in _FILES
    for format in vars(file).values()
    if isinstance(format, Format)
}
ALIASES = {alias: format.name for format in FORMATS.values() for alias in format.aliases}

# The formats that vLLM 0.33.0 or SGLang 0.5.23 read and we do not, and the reasons.
_ATEM = (
    "its calls count only in messages to a tool, and the header of the first message has no marker "
    "where it begins"
)
_TEMPLATE = "its grammar is in the response_template of each checkpoint, which is not read here"
UNREAD = {
    "hf": _TEMPLATE,
    "response_template": _TEMPLATE,
    "beam": _TEMPLATE,
    "muse": _ATEM,
    "muse_glimmer": _ATEM,
    "musespark1x": _ATEM,
    "inkling": "its text begins inside of a block or of the header of one, as the prompt ended",
}


def _format(name: str) -> Format | None:
    base, colon, suffix = name.partition(":")
    format = FORMATS.get(ALIASES.get(base, base))
    if not colon:
        return format
    return elements.hy_v3(name[len(base) :]) if format is elements.HY_V3 and suffix else None


def is_format(name: str) -> bool:
    """Return whether a name, or an alias, is that of a format."""
    return _format(name) is not None


def find_format(name: str) -> Format:
    """Return the format of a name or an alias.

    Checkpoints of Hunyuan choose a suffix for their tags; it is part of the name, as in
    `hy_v3:opensource` for `<tool_calls:opensource>`.

    Raises:
        ValueError: the name is unknown, or of a format that we do not read; the message has the
            known ones, or says what reading it takes.
    """
    if name in UNREAD:
        raise ValueError(f"the tool-call format {name!r} is not read: {UNREAD[name]}")
    format = _format(name)
    if format is None:
        near = difflib.get_close_matches(name, [*FORMATS, *ALIASES])
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ValueError(f"unknown tool-call format {name!r}; {hint}known: {', '.join(FORMATS)}")
    return format
