"""The values that text layers emit: plain, comparable, and unchanged once made.

A parser emits a complete call as `ToolCall`, or streams it in parts: `CallStart`, any number of
`ArgsDelta`, `CallEnd`. The layers around the parsers return `StopOutput` and `Chunk`: text, and
whether the stream has ended. Labs and engine share all of these values.
"""

from dataclasses import dataclass

# The events that a pipeline remembers are frozen, since streams share them. The other values are
# not: they are made for each token, and making a frozen value takes more than twice as long.


@dataclass(slots=True, frozen=True)
class TextDelta:
    """Text for the reader, final once emitted. A layer never emits an empty delta."""

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


@dataclass(slots=True, frozen=True)
class ReasoningDelta:
    """Text of the model's reasoning, final once emitted. A layer never emits an empty delta."""

    text: str


@dataclass(slots=True, frozen=True)
class CallStart:
    """A tool call begins.

    Attributes:
        index: position of the call in the stream, from 0.
        id: the id that the model wrote, or None if the format has no ids.
        name: the function to call.
    """

    index: int
    id: str | None
    name: str


@dataclass(slots=True, frozen=True)
class ArgsDelta:
    """The next characters of a call's arguments, never empty. Joined, they are a JSON object."""

    index: int
    text: str


@dataclass(slots=True, frozen=True)
class CallEnd:
    """A call is complete: its arguments are one JSON object."""

    index: int


@dataclass(slots=True, frozen=True)
class Malformed:
    """A call that has begun cannot be completed.

    Attributes:
        index: position of the call in the stream.
        raw: the text of the call that was not emitted as arguments.
        reason: a description of the error.
    """

    index: int
    raw: str
    reason: str


@dataclass(slots=True, unsafe_hash=True)
class StopOutput:
    """The result of one token in a decoder that looks for stops.

    Attributes:
        text: the text that is certain now, "" if none is.
        stopped: whether a stop has ended the stream.
        reason: the token id or the stop string that ended it, or None.
    """

    text: str
    stopped: bool = False
    reason: int | str | None = None


@dataclass(slots=True, unsafe_hash=True)
class Chunk:
    """The new output of one or more iterations, as a stream's reader gets it.

    Attributes:
        text: the new text, "" if there is none.
        token_ids: the new tokens.
        finish_reason: why the stream has ended, with the last chunk only.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None


Event = TextDelta | ReasoningDelta | CallStart | ArgsDelta | CallEnd | Malformed
