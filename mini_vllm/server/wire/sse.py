"""Server-sent events: one line of JSON between `data: ` and an empty line.

But: no event names, ids or retry times. Clients of this API look at `data` alone.
"""

from typing import Any

import msgspec

DONE = b"data: [DONE]\n\n"
# A comment, which clients skip. It keeps the connection alive while nothing is to be said.
PING = b": ping\n\n"

_encode = msgspec.json.Encoder().encode
# JSON may have these as they are, but clients that cut lines as Python's `splitlines` does would
# cut inside a string: NEL, LINE SEPARATOR, PARAGRAPH SEPARATOR.
_LINE_ENDS = (
    (b"\xc2\x85", rb"\u0085"),
    (b"\xe2\x80\xa8", rb"\u2028"),
    (b"\xe2\x80\xa9", rb"\u2029"),
)


def encode_line(value: Any) -> bytes:
    """Return a value as JSON that is one line by anyone's rules, and UTF-8.

    Raises:
        UnicodeEncodeError: a string has a lone surrogate.
        TypeError: JSON has no such value.
    """
    line = _encode(value)
    if not line.isascii():
        for raw, escaped in _LINE_ENDS:
            line = line.replace(raw, escaped)
    return line


def frame(value: Any) -> bytes:
    """Return one event. It raises what `encode_line` does."""
    return b"data: " + encode_line(value) + b"\n\n"
