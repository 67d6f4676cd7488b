"""Chats on the wire: streamed as `chat.completion.chunk`, or whole as `chat.completion`.

A streamed choice first sends its role; then text, reasoning and calls as they arrive, one kind in
an event; then an empty delta with `finish_reason`. A whole message is the sum of those deltas, so
the two forms cannot disagree. Calls that break off are the exception: in a whole message they are
content.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mini_vllm.engine import CompletionOutput, StreamChunk, TokenLogprobs
from mini_vllm.server.wire.api_errors import broken_off
from mini_vllm.server.wire.chat_delta import DeltaMessage, MessageFold
from mini_vllm.server.wire.logprobs import ChatLogprobs, chat_logprobs
from mini_vllm.server.wire.sse import SseStream, StreamHead, Usage


class ChatStreamChoice(msgspec.Struct):
    """A delta of one choice. vLLM's `stop_reason` is the stop that ended it, in the last delta."""

    index: int
    delta: DeltaMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET
    token_ids: Sequence[int] | UnsetType = UNSET


class ChatWriter:
    """Writes one choice of a streamed chat. See `ChoiceWriter`."""

    def __init__(self, index: int, fold: MessageFold, *, tokens_as_ids: bool) -> None:
        self._index = index
        self._fold = fold
        self.strip = fold.strip
        self._tokens_as_ids = tokens_as_ids

    def opening(self) -> list[Any]:
        """Return the role."""
        return [ChatStreamChoice(self._index, DeltaMessage(role="assistant", content=""))]

    def text(self, text: str) -> ChatStreamChoice:
        """Return a piece of content, or an empty delta."""
        return ChatStreamChoice(self._index, DeltaMessage(content=text) if text else DeltaMessage())

    def news(self, chunk: StreamChunk) -> list[Any]:
        """Return the deltas of a chunk."""
        deltas = self._fold.feed(chunk.all_events, finished=chunk.finished)
        return [ChatStreamChoice(self._index, delta) for delta in deltas]

    def last(self, chunk: StreamChunk) -> ChatStreamChoice:
        """Return an empty delta with the reason."""
        reason = self._fold.finish_reason(chunk.reason)
        return ChatStreamChoice(
            self._index, DeltaMessage(), finish_reason=reason, stop_reason=chunk.stop_reason
        )

    def logprobs(self, steps: Sequence[TokenLogprobs]) -> ChatLogprobs:
        """Return the logprobs of some steps."""
        return chat_logprobs(steps, as_ids=self._tokens_as_ids)


def chat_stream(head: StreamHead, **options: Any) -> SseStream:
    """Return the events of one chat; see `MessageFold` for the options."""
    writers = [
        ChatWriter(index, MessageFold(**options), tokens_as_ids=head.tokens_as_ids)
        for index in range(head.choices)
    ]
    return SseStream(head, "chat.completion.chunk", writers)


class FunctionCall(msgspec.Struct):
    """A function's name, and its arguments as the JSON that the model wrote."""

    name: str
    arguments: str


class AnswerToolCall(msgspec.Struct):
    """A call that the model makes."""

    id: str
    function: FunctionCall
    type: str = "function"


class AnswerMessage(msgspec.Struct):
    """The model's message. Content is null if there are only calls, and `""` if it is empty."""

    role: str
    content: str | None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[AnswerToolCall] | UnsetType = UNSET


class ChatChoice(msgspec.Struct):
    """One answer. `stop_reason` and `token_ids` are vLLM's."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | None
    token_ids: Sequence[int] | UnsetType = UNSET


class ChatResponse(msgspec.Struct):
    """The answer to a chat request that does not stream."""

    id: str
    object: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_token_ids: Sequence[int] | UnsetType = UNSET


def chat_response(
    head: StreamHead,
    outputs: Iterable[CompletionOutput],
    *,
    tells_stop: bool = True,
    **options: Any,
) -> ChatResponse:
    """Return the answer made of finished choices.

    Args:
        head: as for a stream; its options of streaming are ignored.
        outputs: the choices.
        tells_stop: whether `stop_reason` has the stop that ended a choice.
        **options: see `MessageFold`.

    Raises:
        ApiError: 500, or 502 if a remote model is at fault; a choice was cut short.
    """
    tells_ids, completion_tokens = head.prompt_token_ids is not None, 0
    choices = []
    for output in outputs:
        if not output.finish_reason.is_complete:
            raise broken_off(output.finish_reason, output.error)
        completion_tokens += len(output.token_ids)
        fold = MessageFold(**options)
        deltas = fold.feed(output.events, finished=True)
        choices.append(
            ChatChoice(
                output.index,
                add_up(deltas),
                chat_logprobs(output.logprobs, as_ids=head.tokens_as_ids)
                if output.logprobs
                else None,
                fold.finish_reason(output.finish_reason),
                output.stop_reason if tells_stop else None,
                output.token_ids if tells_ids else UNSET,
            )
        )
    return ChatResponse(
        head.id,
        "chat.completion",
        head.created,
        head.model,
        choices,
        Usage.of(head.prompt_tokens, completion_tokens),
        UNSET if head.prompt_token_ids is None else head.prompt_token_ids,
    )


def add_up(deltas: Iterable[DeltaMessage]) -> AnswerMessage:
    """Return the message that deltas add up to."""
    content, reasoning = [], []
    calls: dict[int, tuple[str, str, list[str]]] = {}
    for delta in deltas:
        content.append(delta.content or "")
        reasoning.append(delta.reasoning_content or "")
        for call in delta.tool_calls or ():
            if call.id is not None:
                calls[call.index] = call.id, call.function.name or "", []
            calls[call.index][2].append(call.function.arguments)
    return AnswerMessage(
        "assistant",
        "".join(content) or (None if calls else ""),
        "".join(reasoning) or UNSET,
        [AnswerToolCall(id, FunctionCall(name, "".join(args))) for id, name, args in calls.values()]
        or UNSET,
    )
