"""A whole chat: `chat.completion`, made of the same deltas as a stream of it."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from mini_vllm.engine import CompletionOutput
from mini_vllm.server.endpoints.chat_request import FunctionCall, ToolChoice
from mini_vllm.server.wire.api_errors import broken_off
from mini_vllm.server.wire.chat_delta import DeltaMessage, MessageFold, new_call_id
from mini_vllm.server.wire.logprobs import ChatLogprobs, chat_logprobs
from mini_vllm.server.wire.sse_stream import StreamHead, Usage
from mini_vllm.text.events import TextDelta


class AnswerToolCall(msgspec.Struct):
    """A call that the model makes."""

    id: str
    function: FunctionCall
    type: str = "function"


class AnswerMessage(msgspec.Struct):
    """What the model says: content is null if it only calls, and `""` if it says nothing."""

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
    tool_choice: ToolChoice = "auto",
    parallel_tool_calls: bool = True,
    new_id: Callable[[], str] = new_call_id,
) -> ChatResponse:
    """Return the answer that finished choices are.

    Args:
        head: as for a stream; what is about streaming is not looked at.
        outputs: the choices.
        tool_choice: of the request.
        parallel_tool_calls: false drops all calls but the first.
        new_id: makes ids for calls whose format has none.

    Raises:
        ApiError: 500; a choice did not come to its end.
    """
    tells_ids, completion_tokens = head.prompt_token_ids is not None, 0
    choices = []
    for output in outputs:
        if not output.finish_reason.is_complete:
            raise broken_off(output.finish_reason)
        completion_tokens += len(output.token_ids)
        fold = MessageFold(
            tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, new_id=new_id
        )
        deltas = fold.feed(output.events or (TextDelta(output.text),))
        choices.append(
            ChatChoice(
                output.index,
                add_up(deltas),
                chat_logprobs(output.logprobs) if output.logprobs else None,
                fold.finish_reason(output.finish_reason),
                output.stop_reason,
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
    """Return the message that deltas tell."""
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
