"""The values that text layers emit: plain, comparable, and unchanged once made.

A parser says `ToolCall` of a call that it has read whole, or streams it in parts: `CallStart`, any
number of `ArgsDelta`, `CallEnd`. `StopOutput` and `Chunk` are what a layer around the parsers hands
on: text, and whether the stream has ended. Labs and engine share all of them.
"""

from dataclasses import dataclass

# The events that a pipeline remembers are frozen, since streams share them. The others are not:
# there is one per token, and a frozen one takes more than twice as long to make.


@dataclass(slots=True, frozen=True)
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


@dataclass(slots=True, frozen=True)
class ReasoningDelta:
    """Text of the model's reasoning, final once emitted. A layer never emits an empty one."""

    text: str


@dataclass(slots=True, frozen=True)
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
        raw: what the model wrote of it that was not emitted as arguments.
        reason: what is wrong, in words.
    """

    index: int
    raw: str
    reason: str


@dataclass(slots=True, unsafe_hash=True)
class StopOutput:
    """What a decoder that looks for stops says of one token.

    Attributes:
        text: what is certain now, "" if nothing is.
        stopped: whether a stop has ended the stream.
        reason: the token id or the stop string that did, or None.
    """

    text: str
    stopped: bool = False
    reason: int | str | None = None


@dataclass(slots=True, unsafe_hash=True)
class Chunk:
    """What a stream's reader gets at a time: the news of one or more iterations.

    Attributes:
        text: the new text, "" if there is none.
        token_ids: the new tokens.
        finish_reason: why the stream has ended, with the last chunk only.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None


Event = TextDelta | ReasoningDelta | CallStart | ArgsDelta | CallEnd | Malformed
