"""A streamed chat: `chat.completion.chunk` events, as OpenAI's clients add them up.

The role comes once for each choice, before all else. Then text, reasoning and calls as they arrive,
one kind in one event; then an empty delta with `finish_reason`; then `[DONE]`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mini_vllm.engine import StreamChunk, TokenLogprobs
from mini_vllm.server.endpoints.chat_request import ToolChoice
from mini_vllm.server.wire.chat_delta import DeltaMessage, MessageFold, new_call_id
from mini_vllm.server.wire.logprobs import ChatLogprobs, chat_logprobs
from mini_vllm.server.wire.sse_stream import SseStream, StreamHead
from mini_vllm.text.events import TextDelta


class ChatStreamChoice(msgspec.Struct):
    """News of one choice. `stop_reason`, what stopped it, is vLLM's, and comes with the last."""

    index: int
    delta: DeltaMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET
    token_ids: Sequence[int] | UnsetType = UNSET


class ChatStream(SseStream):
    """The events of one chat.

    Args:
        head: what is known before the first token.
        tool_choice: of the request.
        parallel_tool_calls: false drops all calls but the first.
        new_id: makes ids for calls whose format has none.
    """

    object = "chat.completion.chunk"

    def __init__(
        self,
        head: StreamHead,
        *,
        tool_choice: ToolChoice = "auto",
        parallel_tool_calls: bool = True,
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        super().__init__(head)
        self._folds = [
            MessageFold(
                tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, new_id=new_id
            )
            for _ in range(head.choices)
        ]

    def _first_choices(self) -> list[Any]:
        return [
            ChatStreamChoice(index, DeltaMessage(role="assistant", content=""))
            for index in range(len(self._folds))
        ]

    def _text_choice(self, index: int, text: str) -> ChatStreamChoice:
        return ChatStreamChoice(index, DeltaMessage(content=text) if text else DeltaMessage())

    def _news(self, index: int, chunk: StreamChunk) -> list[Any]:
        deltas = self._folds[index].feed(chunk.events or (TextDelta(chunk.text),))
        return [ChatStreamChoice(index, delta) for delta in deltas]

    def _last_choice(self, index: int, chunk: StreamChunk) -> ChatStreamChoice:
        reason = self._folds[index].finish_reason(chunk.reason)
        return ChatStreamChoice(
            index, DeltaMessage(), finish_reason=reason, stop_reason=chunk.stop_reason
        )

    def _logprobs(self, index: int, steps: Sequence[TokenLogprobs]) -> ChatLogprobs:
        return chat_logprobs(steps)
