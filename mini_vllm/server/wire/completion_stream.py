"""Completions, streamed and whole: `text_completion` both, with no roles, reasoning or calls."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from mini_vllm.engine import CompletionOutput, StreamChunk, TokenLogprobs
from mini_vllm.server.wire.api_errors import broken_off
from mini_vllm.server.wire.logprobs import CompletionLogprobs, CompletionLogprobsStream
from mini_vllm.server.wire.sse_stream import SseStream, StreamHead, StreamResponse, Usage

OBJECT = "text_completion"


class CompletionChoice(msgspec.Struct):
    """One text, or news of it. `stop_reason` and `token_ids` are vLLM's."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET
    token_ids: Sequence[int] | UnsetType = UNSET


class CompletionStream(SseStream):
    """The events of completions; the choices of all prompts are counted through."""

    object = OBJECT

    def __init__(self, head: StreamHead) -> None:
        super().__init__(head)
        self._lists = [CompletionLogprobsStream() for _ in range(head.choices)]

    def _first_choices(self) -> list[Any]:
        return []

    def _text_choice(self, index: int, text: str) -> CompletionChoice:
        return CompletionChoice(index, text)

    def _news(self, index: int, chunk: StreamChunk) -> list[Any]:
        return [CompletionChoice(index, chunk.text)] if chunk.text else []

    def _last_choice(self, index: int, chunk: StreamChunk) -> CompletionChoice:
        return CompletionChoice(
            index, "", finish_reason=chunk.reason.openai(), stop_reason=chunk.stop_reason
        )

    def _logprobs(self, index: int, steps: Sequence[TokenLogprobs]) -> CompletionLogprobs:
        return self._lists[index].feed(steps)


def completion_response(head: StreamHead, outputs: Iterable[CompletionOutput]) -> StreamResponse:
    """Return the answer that finished choices are. Their places are their indices.

    Args:
        head: as for a stream; what is about streaming is not looked at.
        outputs: the choices, prompt by prompt.

    Raises:
        ApiError: 500; a choice did not come to its end.
    """
    prompt = UNSET if head.prompt_token_ids is None else head.prompt_token_ids
    choices, completion_tokens = [], 0
    for index, output in enumerate(outputs):
        if not output.finish_reason.is_complete:
            raise broken_off(output.finish_reason)
        completion_tokens += len(output.token_ids)
        lists = CompletionLogprobsStream().feed(output.logprobs) if output.logprobs else None
        choices.append(
            CompletionChoice(
                index,
                output.text,
                lists,
                output.finish_reason.openai(),
                output.stop_reason,
                UNSET if prompt is UNSET else output.token_ids,
            )
        )
    usage = Usage.of(head.prompt_tokens, completion_tokens)
    return StreamResponse(head.id, OBJECT, head.created, head.model, choices, usage, prompt)
