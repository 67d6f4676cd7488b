"""Server-sent events: the framing of an event, and an answer as events, from the first to `[DONE]`.

An event is one line of JSON between `data: ` and an empty line; it has no name, id or retry time,
because clients of this API read only `data`. Every stream, even with an error, ends with exactly
one `[DONE]`: clients wait for it.

Chats and completions share all of this. A `ChoiceWriter` decides how a choice is written.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from mini_vllm.engine import StreamChunk, TokenLogprobs
from mini_vllm.server.wire.api_errors import ApiError, broken_off, encode_line
from mini_vllm.server.wire.white_space import WhiteSpaceStrip

DONE = b"data: [DONE]\n\n"
# A comment, which clients skip. It keeps the connection alive while the model is silent.
PING = b": ping\n\n"


def frame(value: Any) -> bytes:
    """Return one event.

    Raises:
        UnicodeEncodeError: a string contains a lone surrogate.
        TypeError: JSON cannot represent the value.
    """
    return b"data: " + encode_line(value) + b"\n\n"


class Usage(msgspec.Struct):
    """The numbers of tokens. A prompt's tokens count once, however many choices it has."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, prompt_tokens: int, completion_tokens: int) -> "Usage":
        """Return the usage with both numbers and their sum."""
        return cls(prompt_tokens, completion_tokens, prompt_tokens + completion_tokens)


class HeldReport(msgspec.Struct):
    """The text that the layers of the text path hold after a chunk.

    Attributes:
        token_ids: the new ids. If a chunk makes several events, the first event carries them.
        held: by the layer's name, in the order of the text path; bytes as a list of numbers.
        naive: the text of the new ids when each is decoded by itself.
    """

    token_ids: Sequence[int]
    held: dict[str, str | list[int]]
    naive: str

    @classmethod
    def of(cls, chunk: StreamChunk, naive: Callable[[Sequence[int]], str]) -> "HeldReport":
        """Return the report of a chunk; `naive` decodes each id by itself."""
        held = {
            name: list(text) if isinstance(text, bytes) else text
            for name, text in (chunk.held or {}).items()
        }
        return cls(chunk.token_ids, held, naive(chunk.token_ids))


class StreamResponse(msgspec.Struct):
    """One event of a stream.

    Attributes:
        usage: absent in a stream that does not count tokens. A stream that counts tokens has the
            counts in its last event and null in the others; with `continuous_usage`, every event
            has counts.
        prompt_token_ids: in the first event of a stream that reports ids.
        mini_vllm: in a stream that reports held text.
    """

    id: str
    object: str
    created: int
    model: str
    choices: Sequence[Any]
    usage: Usage | UnsetType | None = UNSET
    prompt_token_ids: Sequence[int] | UnsetType = UNSET
    mini_vllm: HeldReport | UnsetType = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHead:
    """The part of an answer that is known before its first token.

    Attributes:
        id: of the answer; every event repeats it.
        created: when it began, in seconds since 1970.
        model: the name that the client used.
        choices: how many choices there are, over all prompts.
        prompt_tokens: how many tokens all prompts have together.
        include_usage: report the number of tokens in a separate event, before the end.
        continuous_usage: also report, in every event, the tokens of the event's choice so far.
        prompt_token_ids: the ids of the prompt, if the client asked for ids; each choice then also
            reports its ids.
        tokens_as_ids: name the tokens of logprobs by their ids.
        hidden_ids: the special tokens that the answers leave out.
        naive: decodes each id by itself, if the client asked for the held text.
    """

    id: str
    created: int
    model: str
    choices: int = 1
    prompt_tokens: int = 0
    include_usage: bool = False
    continuous_usage: bool = False
    prompt_token_ids: Sequence[int] | None = None
    tokens_as_ids: bool = False
    hidden_ids: Set[int] = frozenset()
    naive: Callable[[Sequence[int]], str] | None = None


class Events(Protocol):
    """A converter of one answer's chunks to bytes for its client, such as `SseStream`."""

    def start(self) -> bytes:
        """Return the events before any token."""
        ...

    def feed(self, index: int, chunk: StreamChunk) -> bytes:
        """Return the events of a chunk."""
        ...

    def end(self) -> bytes:
        """Return the events after the last chunk of all choices."""
        ...

    def error(self, error: ApiError) -> bytes:
        """Return the events that end the stream with an error."""
        ...


class ChoiceWriter(Protocol):
    """A writer for one choice of one kind of answer; it returns values that msgspec encodes."""

    @property
    def strip(self) -> WhiteSpaceStrip | None:
        """The filter of white space that the texts pass, or None.

        `text` may replace `news` if there is no filter, or if the filter passes the text, which is
        not empty.
        """
        ...

    def opening(self) -> list[Any]:
        """Return the values before any token."""
        ...

    def text(self, text: str) -> Any:
        """Return the value of a text alone; the text may be empty."""
        ...

    def news(self, chunk: StreamChunk) -> list[Any]:
        """Return the values of a chunk, without its end."""
        ...

    def last(self, chunk: StreamChunk) -> Any:
        """Return the value of the end that the last chunk announces."""
        ...

    def logprobs(self, steps: Sequence[TokenLogprobs]) -> Any:
        """Return the logprobs of some steps; each step is passed once, in order."""
        ...


@dataclass(slots=True)
class _Unreported:
    """The ids and logprobs since the last event of a choice."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)


class SseStream:
    """The events of one answer.

    Ids and logprobs of held text are sent with the next event.

    Args:
        head: the part of the answer that is known before the first token.
        object: the `object` of each event.
        writers: one for each choice, in the order of their indices.
    """

    def __init__(self, head: StreamHead, object: str, writers: Sequence[ChoiceWriter]) -> None:
        self._head = head
        self._object = object
        self._writers = writers
        self._usage: UnsetType | None = None if head.include_usage else UNSET
        self._tells_ids = head.prompt_token_ids is not None
        self._prompt: Sequence[int] | UnsetType = (
            UNSET if head.prompt_token_ids is None else head.prompt_token_ids
        )
        self._plain = head.naive is None and not self._tells_ids and not head.continuous_usage
        self._open: set[int] = set()
        self._unreported = [_Unreported() for _ in writers]
        self._around: dict[int, tuple[bytes, bytes]] = {}
        self._completion_tokens = [0 for _ in writers]
        self._closed = False

    def start(self) -> bytes:
        """Open the choices; return the events before any token."""
        self._open = set(range(len(self._writers)))
        choices = [choice for writer in self._writers for choice in writer.opening()]
        return b"".join([frame(self._response([choice])) for choice in choices])

    def feed(self, index: int, chunk: StreamChunk) -> bytes:
        """Return the events of a chunk: usually one; `b""` if it has nothing for the client.

        Raises:
            ValueError: the choice has not begun, or has ended.
        """
        if self._closed:
            return b""
        if index not in self._open:
            raise ValueError(
                f"choice {index} of {len(self._writers)} is not open; start() opens all choices, "
                f"and the last chunk of a choice closes it"
            )
        self._completion_tokens[index] += len(chunk.token_ids)
        writer, text = self._writers[index], chunk.text
        if self._plain and not (chunk.events or chunk.finished or chunk.logprobs):
            if not text:
                return b""
            strip = writer.strip
            if strip is None or strip.passes(text):
                return self._text_event(index, text)
        choices = writer.news(chunk)
        if chunk.finished:
            self._open.remove(index)
            if chunk.reason.is_complete:
                choices.append(writer.last(chunk))
        if not choices and self._head.naive is not None:
            choices.append(writer.text(""))
        events = self._events(index, chunk, choices)
        if chunk.finished and not chunk.reason.is_complete:
            events += self.error(broken_off(chunk.reason))
        return events

    def end(self) -> bytes:
        """Return the events after the last chunk of all choices; `b""` after an error."""
        if self._closed:
            return b""
        if self._open:
            return self.error(ApiError(500, "the stream ended before the answer was complete"))
        self._closed = True
        if not self._head.include_usage:
            return DONE
        response = self._response([])
        response.usage = Usage.of(self._head.prompt_tokens, sum(self._completion_tokens))
        return frame(response) + DONE

    def error(self, error: ApiError) -> bytes:
        """Return the events that end the stream with an error; `b""` if it has ended already."""
        if self._closed:
            return b""
        self._closed = True
        return frame(error.body) + DONE

    def _events(self, index: int, chunk: StreamChunk, choices: list[Any]) -> bytes:
        unreported = self._unreported[index]
        if self._tells_ids:
            unreported.token_ids += chunk.token_ids
        unreported.logprobs += chunk.logprobs
        if not choices:
            return b""
        if self._tells_ids:
            choices[0].token_ids = unreported.token_ids
        if unreported.logprobs:
            choices[0].logprobs = self._writers[index].logprobs(unreported.logprobs)
        self._unreported[index] = _Unreported()
        responses = [self._response([choice]) for choice in choices]
        if self._head.naive is not None:
            report = HeldReport.of(chunk, self._head.naive)
            for response in responses:
                response.mini_vllm = HeldReport((), report.held, "")
            responses[0].mini_vllm = report
        return b"".join([frame(response) for response in responses])

    def _response(self, choices: Sequence[Any]) -> StreamResponse:
        head, prompt, self._prompt = self._head, self._prompt, UNSET
        usage: Usage | UnsetType | None = self._usage
        if head.continuous_usage and choices:
            usage = Usage.of(head.prompt_tokens, self._completion_tokens[choices[0].index])
        return StreamResponse(
            head.id,
            self._object,
            head.created,
            head.model,
            choices,
            usage=usage,
            prompt_token_ids=prompt,
        )

    def _text_event(self, index: int, text: str) -> bytes:
        """Return the event of a text alone; only the text is encoded each time.

        Encoding whole events would add a twentieth to the server's work for each event.
        """
        around = self._around.get(index)
        if around is None:
            event = frame(self._response([self._writers[index].text("\0")]))
            before, _, after = event.rpartition(rb'"\u0000"')
            around = self._around[index] = before, after
        return around[0] + encode_line(text) + around[1]
