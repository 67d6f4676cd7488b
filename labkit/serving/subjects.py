"""The subjects of the strip, all of one shape: a layer of a lab, the naive way, a whole path.

A subject is fed pieces of its input and returns output; `held` is the held text of each layer.
"""

import inspect
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from labkit.course.lab import PIPELINE, Serves
from labkit.serving.composed import Composed, Part
from labkit.serving.lab_path import TAGS, LabPathFactory, engine_events
from labkit.serving.layers import Maker, Renamed, StopsOnIds
from labkit.serving.vocabulary import bytes_of, facts_of
from mini_vllm.engine import Request, SamplingParams
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import (
    ArgsDelta,
    CallStart,
    Chunk,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import ByteTokenizer, Tokenizer

# One output: its kind, its text, and for a call its number.
Emitted = tuple[str, str, int | None]
Held = Mapping[str, str | bytes]
# A reader that is slower than the writer: it reads one chunk after so many writes.
_READS_AFTER = 3
_MAX_PENDING = 2
_CHAT = {"id": "chatcmpl-1", "created": 1_760_000_000, "model": "yours", "include_usage": True}


class Subject(ABC):
    """An object that can be fed. By default it holds nothing, and `flush` returns nothing.

    Attributes:
        ended: why it has ended; None while it can be fed.
    """

    ended: str | None = None

    @property
    def held(self) -> Held:
        """The held text of each layer, by its name."""
        return {}

    @abstractmethod
    def feed(self, piece: Any) -> list[Emitted]:
        """Feed a piece; return the output."""

    def flush(self) -> list[Emitted]:
        """End the input; return the rest."""
        return []


Make = Callable[[], Subject]


class Layer(Subject):
    """One layer of a lab."""

    def __init__(self, role: str, layer: Any, matcher: Any = None) -> None:
        self._role = role
        self._layer = layer
        self._matcher = matcher

    @property
    def held(self) -> Held:
        """The held text of the layer."""
        return {self._role: _checked_held(self._layer.held)}

    def feed(self, piece: Any) -> list[Emitted]:
        """Feed an id or a text."""
        emitted = _emitted(self._layer.feed(piece), self._role, "feed")
        matched = getattr(self._matcher, "matched", None)
        if matched is not None:
            self.ended = f"stop {matched!r}"
        return emitted

    def flush(self) -> list[Emitted]:
        """Return the rest."""
        return _emitted(self._layer.flush(), self._role, "flush")


class Path(Subject):
    """The layers of several labs, composed as in a server."""

    def __init__(self, path: Any) -> None:
        self._path = path
        self._called = False

    @property
    def held(self) -> Held:
        """The held text of each layer."""
        return {role: held for role, held in self._path.held.items() if role != PIPELINE}

    def feed(self, piece: int) -> list[Emitted]:
        """Feed an id."""
        emitted = _of_events(self._path.take([piece]))
        self._called |= any(kind == "call" for kind, _, _ in emitted)
        if self._path.ending is not None:
            self.ended = self._path.ending.reason.openai(called=self._called)
        return emitted


class Frames(Subject):
    """A lab's frames for the events of the engine's own text path."""

    def __init__(self, stream: Any, stops: Sequence[str]) -> None:
        tokenizer = ByteTokenizer()
        self._stream = stream
        self._path = TextPipeline(
            tokenizer, stop=stops, eos_token_ids=tokenizer.eos_token_ids,
            reasoning=create_reasoning_splitter("qwen3"), tools=create_tool_parser("hermes"),
        )  # fmt: skip
        self._is_first = True

    @property
    def held(self) -> Held:
        """The held text of the layers before it."""
        return self._path.held

    def feed(self, piece: int) -> list[Emitted]:
        """Feed an id; the first call also returns the start frame."""
        frames = [("start", self._stream.start())] if self._is_first else []
        self._is_first = False
        frames += [("feed", self._stream.feed(event)) for event in self._path.feed((piece,))]
        if self._path.ending is not None:
            self.ended = self._path.finish_reason
            count = self._path.tokens
            usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
            frames.append(("finish", self._stream.finish(self.ended, usage)))
        return [item for method, data in frames for item in _emitted(data, "frames", method)]


class Crossing(Subject):
    """A channel whose reader is slower than its writer; unread text is held."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._waiting: deque[str] = deque()
        self._written = 0

    @property
    def held(self) -> Held:
        """The text that was written and not read."""
        return {"channel": "".join(self._waiting)}

    def feed(self, piece: str) -> list[Emitted]:
        """Write a piece; after every few pieces, read a chunk."""
        self._channel.push(Chunk(piece, (self._written,)))
        self._waiting.append(piece)
        self._written += 1
        return self._read() if self._written % _READS_AFTER == 0 else []

    def flush(self) -> list[Emitted]:
        """End the channel; read the rest."""
        self._channel.finish("stop")
        emitted: list[Emitted] = []
        for _ in range(self._written + 1):
            if self.ended is None:
                emitted += self._read()
        return emitted

    def _read(self) -> list[Emitted]:
        chunk = self._channel.try_pop()
        if chunk is None:
            return []
        for _ in chunk.token_ids:
            if self._waiting:
                self._waiting.popleft()
        self.ended = chunk.finish_reason
        return [("content", _text(chunk.text, "text"), None)] if chunk.text else []


class Queue:
    """The naive channel: a list of all unread chunks, without a limit."""

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()

    def push(self, chunk: Chunk) -> None:
        """Add a chunk."""
        self._chunks.append(chunk)

    def finish(self, reason: str) -> None:
        """Add the last chunk."""
        self._chunks.append(Chunk("", (), reason))

    def try_pop(self) -> Chunk | None:
        """Take the oldest chunk."""
        return self._chunks.popleft() if self._chunks else None


class Whole(Subject):
    """A decoder without a stream: with every id, all ids so far are decoded anew.

    Args:
        encode: from text to ids.
        decode: from ids to text.
    """

    def __init__(self, encode: Callable[[str], Any], decode: Callable[[list[int]], Any]) -> None:
        self._encode = encode
        self._decode = decode
        self._ids: list[int] = []

    def feed(self, piece: int) -> list[Emitted]:
        """Feed an id; return the whole text so far."""
        self._ids.append(piece)
        return [("whole", _text(self._decode([*self._ids]), "the result of decode"), None)]

    def flush(self) -> list[Emitted]:
        """Return the ids that `encode` returns for the text, if the text is valid UTF-8."""
        try:
            text = bytes(self._ids).decode()
        except UnicodeDecodeError:
            return []
        return [("ids", f"encode returns {self._encode(text)!r}", None)]


class Alone(Subject):
    """The naive way from ids to text: each token is decoded by itself."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def feed(self, piece: int) -> list[Emitted]:
        """Feed an id."""
        text = bytes_of(self._tokenizer, piece).decode("utf-8", "replace")
        return [("content", text, None)] if text else []


def make_subject(
    composed: Composed, role: str, tokenizer: Tokenizer, stops: Sequence[str]
) -> Subject:
    """Return the subject of a role of some labs; exceptions of the labs are raised.

    Args:
        composed: the labs' code.
        role: the role of a part; `pipeline` means all parts.
        tokenizer: the tokenizer of the ids.
        stops: the stop strings.
    """
    if role == PIPELINE:
        factory = LabPathFactory(composed, tokenizer)
        return Path(factory.build(Request((), SamplingParams(stop=tuple(stops)), tools=())))
    maker = Maker(composed, {**facts_of(tokenizer), **TAGS})
    values = {
        "prompt_ids": [],
        "skip_special_tokens": True,
        "starts_inside": False,
        "stops": list(stops),
        "visible_stops": (),
        "all_stops": list(stops),
        "include_stop": False,
        "stop_token_ids": sorted(tokenizer.eos_token_ids),
        "visible_stop_token_ids": (),
        "min_tokens": 0,
        "max_pending": _MAX_PENDING,
        **_CHAT,
    }
    serves = composed.parts[role].serves
    takes_ids = "tokens" in serves.arguments.values()
    if takes_ids:
        values["tokens"] = Renamed(
            maker.make("tokens", values), composed.parts["tokens"].serves, b""
        )
    made = maker.make(role, values)
    if role == "frames":
        return Frames(made, stops)
    if role == "channel":
        return Crossing(made)
    layer: Any = Renamed(made, serves, b"" if role == "tokens" else "")
    if takes_ids:
        layer = StopsOnIds(layer)
        return Layer(role, layer, layer)
    return Layer(role, layer, made)


def naive_part(part: Part) -> Part:
    """Return a part that is made with those of its arguments that its class takes."""
    made = part.resolve(part.serves.class_name)
    taken = inspect.signature(made).parameters
    arguments = {name: it for name, it in part.serves.arguments.items() if name in taken}
    serves: Serves = replace(part.serves, arguments=arguments)
    return Part(part.lab, serves, part.implementation)


def _emitted(output: Any, role: str, method: str) -> list[Emitted]:
    """Check a layer's result; return it as output."""
    if role in ("tokens", "stops"):
        text = _text(output, f"the result of {method}")
        return [("content", text, None)] if text else []
    if role == "frames":
        if not isinstance(output, bytes):
            raise TypeError(f"{method} returned {output!r}; it must be bytes")
        return [("frame", output.decode("utf-8", "replace"), None)] if output else []
    if not isinstance(output, list):
        raise TypeError(f"{method} returned {output!r}; it must be a list of events")
    return _of_events([event for item in output for event in engine_events(item)])


def _of_events(events: Sequence[Event]) -> list[Emitted]:
    emitted: list[Emitted] = []
    for event in events:
        if isinstance(event, TextDelta):
            emitted.append(("content", event.text, None))
        elif isinstance(event, ReasoningDelta):
            emitted.append(("reasoning", event.text, None))
        elif isinstance(event, CallStart):
            emitted.append(("call", event.name, event.index))
        elif isinstance(event, ArgsDelta):
            emitted.append(("arguments", event.text, event.index))
        elif isinstance(event, Malformed):
            emitted.append(("malformed", event.raw, event.index))
    return emitted


def _checked_held(held: Any) -> str | bytes:
    if not isinstance(held, str | bytes):
        raise TypeError(f"held is {held!r}; it must be str or bytes")
    return held


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}; it must be a str")
    return value
