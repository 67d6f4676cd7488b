"""One streamed answer as events, from the first to `[DONE]`: what chats and completions share.

Whatever happens, the stream ends with `[DONE]`, and only once: clients wait for it.

But: it reads no channel and writes to no socket.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mini_vllm.engine import StreamChunk, TokenLogprobs
from mini_vllm.server.wire.api_errors import ApiError, broken_off
from mini_vllm.server.wire.sse import DONE, encode_line, frame


class Usage(msgspec.Struct):
    """How many tokens there were. Those of a prompt count once, however many choices it has."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, prompt_tokens: int, completion_tokens: int) -> "Usage":
        """Return both and their sum."""
        return cls(prompt_tokens, completion_tokens, prompt_tokens + completion_tokens)


class HeldReport(msgspec.Struct):
    """What the layers of the text path hold after a chunk.

    Attributes:
        token_ids: the new ids. Of several events that one chunk makes, the first has them.
        held: by layer; bytes as hexadecimal numbers.
        naive: the text that the new ids would be if they were decoded for themselves.
    """

    token_ids: Sequence[int]
    held: dict[str, str]
    naive: str


class StreamResponse(msgspec.Struct):
    """One event of a stream.

    Attributes:
        usage: null in all but the last event of a stream that counts tokens, absent elsewhere.
        prompt_token_ids: in the first event of a stream that tells ids.
        mini_vllm: in a stream that tells what is held.
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
    """What a stream knows before its first token.

    Attributes:
        id: of the answer; all events have it.
        created: when it began, in seconds since 1970.
        model: as the client named it.
        choices: how many; of a completion those of all prompts together.
        prompt_tokens: of all prompts together.
        include_usage: count the tokens in an event of its own, before the end.
        prompt_token_ids: where the client wants ids: those of the prompts, one after the other.
            Then the choices have theirs too.
        naive: where the client wants to see what is held: makes text of ids, each time for itself.
    """

    id: str
    created: int
    model: str
    choices: int = 1
    prompt_tokens: int = 0
    include_usage: bool = False
    prompt_token_ids: Sequence[int] | None = None
    naive: Callable[[Sequence[int]], str] | None = None


@dataclass(slots=True)
class _Untold:
    """What was made since the last event of a choice."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)


class SseStream:
    """The events of one answer. Its kinds say what a choice looks like.

    Ids and logprobs go with the first event after them, if their text is held back.
    """

    object: str

    def __init__(self, head: StreamHead) -> None:
        self._head = head
        self._usage: UnsetType | None = None if head.include_usage else UNSET
        self._tells_ids = head.prompt_token_ids is not None
        self._prompt: Sequence[int] | UnsetType = (
            UNSET if head.prompt_token_ids is None else head.prompt_token_ids
        )
        self._plain = head.naive is None and not self._tells_ids
        self._open: set[int] = set()
        self._untold = [_Untold() for _ in range(head.choices)]
        self._around: dict[int, tuple[bytes, bytes]] = {}
        self._completion_tokens = 0
        self._closed = False

    def start(self) -> bytes:
        """Open the choices; return the events that come before any token."""
        self._open = set(range(self._head.choices))
        return b"".join([frame(self._response([choice])) for choice in self._first_choices()])

    def feed(self, index: int, chunk: StreamChunk) -> bytes:
        """Return the events of a chunk: often one, `b""` where it has no news for a client.

        Raises:
            ValueError: the choice has not begun, or has ended.
        """
        if self._closed:
            return b""
        if index not in self._open:
            raise ValueError(
                f"choice {index} of {self._head.choices} is not open; start() opens all, and the "
                f"last chunk closes its own"
            )
        self._completion_tokens += len(chunk.token_ids)
        if self._plain and not (chunk.events or chunk.finished or chunk.logprobs):
            return self._text_event(index, chunk.text) if chunk.text else b""
        choices = self._news(index, chunk)
        if chunk.finished:
            self._open.remove(index)
            if chunk.reason.is_complete:
                choices.append(self._last_choice(index, chunk))
        if not choices and self._head.naive is not None:
            choices.append(self._text_choice(index, ""))
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
        response.usage = Usage.of(self._head.prompt_tokens, self._completion_tokens)
        return frame(response) + DONE

    def error(self, error: ApiError) -> bytes:
        """Return the events that end a stream for an error; `b""` if it has ended already."""
        if self._closed:
            return b""
        self._closed = True
        return frame(error.body) + DONE

    def _events(self, index: int, chunk: StreamChunk, choices: list[Any]) -> bytes:
        untold = self._untold[index]
        if self._tells_ids:
            untold.token_ids += chunk.token_ids
        untold.logprobs += chunk.logprobs
        if not choices:
            return b""
        if self._tells_ids:
            choices[0].token_ids = untold.token_ids
        if untold.logprobs:
            choices[0].logprobs = self._logprobs(index, untold.logprobs)
        self._untold[index] = _Untold()
        responses = [self._response([choice]) for choice in choices]
        if self._head.naive is not None:
            held = {name: _shown(text) for name, text in (chunk.held or {}).items()}
            for response in responses:
                response.mini_vllm = HeldReport((), held, "")
            naive = self._head.naive(chunk.token_ids)
            responses[0].mini_vllm = HeldReport(chunk.token_ids, held, naive)
        return b"".join([frame(response) for response in responses])

    def _response(self, choices: Sequence[Any]) -> StreamResponse:
        head, prompt, self._prompt = self._head, self._prompt, UNSET
        return StreamResponse(
            head.id,
            self.object,
            head.created,
            head.model,
            choices,
            usage=self._usage,
            prompt_token_ids=prompt,
        )

    def _text_event(self, index: int, text: str) -> bytes:
        """Return the event that is one text and nothing else: only the text is encoded."""
        around = self._around.get(index)
        if around is None:
            event = frame(self._response([self._text_choice(index, "\0")]))
            before, _, after = event.rpartition(rb'"\u0000"')
            around = self._around[index] = before, after
        return around[0] + encode_line(text) + around[1]

    def _first_choices(self) -> list[Any]:
        raise NotImplementedError

    def _text_choice(self, index: int, text: str) -> Any:
        raise NotImplementedError

    def _news(self, index: int, chunk: StreamChunk) -> list[Any]:
        raise NotImplementedError

    def _last_choice(self, index: int, chunk: StreamChunk) -> Any:
        raise NotImplementedError

    def _logprobs(self, index: int, steps: Sequence[TokenLogprobs]) -> Any:
        raise NotImplementedError


def _shown(held: str | bytes) -> str:
    return held.hex(" ") if isinstance(held, bytes) else held
