"""Layers over decoded text, which know nothing of tokens, requests or sockets.

The events are imported at once, since labs need them; the rest when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)

if TYPE_CHECKING:
    from mini_vllm.text.markers import MarkerScanner
    from mini_vllm.text.reasoning import create_reasoning_splitter
    from mini_vllm.text.stop import StopMatcher
    from mini_vllm.text.stream_parser import StreamParser
    from mini_vllm.text.tool_parsers import create_tool_parser

_LAZY = {
    "MarkerScanner": "markers",
    "StopMatcher": "stop",
    "StreamParser": "stream_parser",
    "create_reasoning_splitter": "reasoning",
    "create_tool_parser": "tool_parsers",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


__all__ = [
    "ArgsDelta",
    "CallEnd",
    "CallStart",
    "Event",
    "Malformed",
    "MarkerScanner",
    "ReasoningDelta",
    "StopMatcher",
    "StreamParser",
    "TextDelta",
    "ToolCall",
    "create_reasoning_splitter",
    "create_tool_parser",
]
