"""The values that text layers emit: plain, immutable, comparable.

These are the only types that labs and engine share.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text for the reader, final once emitted. A layer never emits an empty one."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete tool call.

    Attributes:
        index: position of the call in the stream, from 0.
        name: the function to call, as the model wrote it.
        arguments: the JSON object that the model wrote, byte for byte, never re-serialised.
    """

    index: int
    name: str
    arguments: str
