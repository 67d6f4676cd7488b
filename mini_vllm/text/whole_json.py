"""Reads complete JSON texts, never deeper than a bound.

The depth that `json` and msgspec read depends on the Python version: about 1,000 levels in 3.11,
10,000 in 3.13, and in 3.14 as many as fit on the stack. So the open brackets are counted before a
text is read, and the bound is the same everywhere.
"""

import json
import re
from itertools import accumulate
from typing import Any

from mini_vllm.text.json_scanner import DEEPEST

# A string without an end reaches to the end of the text, so no character is read twice.
_STRINGS = re.compile(rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?')
# 255 is -1 as a signed byte.
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\xff\xff")
_OTHERS = bytes(set(range(256)).difference(b"[{]}"))


class JsonDepthError(ValueError):
    """A JSON text is nested deeper than its limit."""


def check_json_depth(text: str, most: int = DEEPEST) -> None:
    """Check that the brackets of a JSON text are not nested too deep.

    Args:
        text: valid or invalid JSON; only brackets outside of strings count.
        most: how many brackets may be open at the same time. The default is the limit of streamed
            arguments. No request, tool, schema or configuration of a model is nearly that deep, and
            the limit is a quarter of the depth that the strictest Python reads.

    Raises:
        JsonDepthError: more brackets are open.
    """
    if text.count("[") + text.count("{") <= most:
        return
    brackets = _STRINGS.sub(b"", text.encode("utf-8", "surrogatepass")).translate(_STEPS, _OTHERS)
    if max(accumulate(memoryview(brackets).cast("b")), default=0) > most:
        raise JsonDepthError(f"nested deeper than {most}; flatten it")


def load_json(text: str) -> Any:
    """Return the value of a JSON text, as `json.loads` does.

    Raises:
        JsonDepthError: the text is nested more than 256 deep.
        ValueError: the text is not JSON, or has an integer of more digits than Python reads.
    """
    check_json_depth(text)
    return json.loads(text)
