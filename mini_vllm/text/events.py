"""The values that text layers emit: plain, comparable, and unchanged once made.

`TextDelta` and `ToolCall` are the only types that labs and engine share. The engine's parsers
stream a call in parts instead: `CallStart`, any number of `ArgsDelta`, `CallEnd`.
"""

from dataclasses import dataclass

# Not frozen: there is one per token, and a frozen one takes more than twice as long to make.


@dataclass(slots=True, unsafe_hash=True)
class TextDelta:
    """Text for the reader, final once emitted. A layer never emits an empty one."""

    text: str


@dataclass(slots=True, unsafe_hash=True)
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


@dataclass(slots=True, unsafe_hash=True)
class ReasoningDelta:
    """Text of the model's reasoning, final once emitted. A layer never emits an empty one."""

    text: str


@dataclass(slots=True, unsafe_hash=True)
class CallStart:
    """A tool call begins.

    Attributes:
        index: position of the call in the stream, from 0.
        id: the id that the model wrote, or None where the format has none.
        name: the function to call.
    """

    index: int
    id: str | None
    name: str


@dataclass(slots=True, unsafe_hash=True)
class ArgsDelta:
    """The next characters of a call's arguments, never empty. Joined, they are a JSON object."""

    index: int
    text: str


@dataclass(slots=True, unsafe_hash=True)
class CallEnd:
    """A call is complete: its arguments are one JSON object."""

    index: int


@dataclass(slots=True, unsafe_hash=True)
class Malformed:
    """A call that has begun cannot be completed.

    Attributes:
        index: position of the call in the stream.
        raw: what the model wrote of it that was not emitted as arguments.
        reason: what is wrong, in words.
    """

    index: int
    raw: str
    reason: str


Event = TextDelta | ReasoningDelta | CallStart | ArgsDelta | CallEnd | Malformed
