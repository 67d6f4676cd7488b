"""Completions on the wire, streamed or whole: plain text, without roles, reasoning or calls."""

from collections.abc import Iterable, Sequence, Set
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from mini_vllm.engine import CompletionOutput, LogprobEntry, StreamChunk, TokenLogprobs
from mini_vllm.server.wire.api_errors import broken_off
from mini_vllm.server.wire.logprobs import CompletionLogprobs, CompletionLogprobsStream, joined
from mini_vllm.server.wire.sse import SseStream, StreamHead, StreamResponse, Usage

OBJECT = "text_completion"


class CompletionChoice(msgspec.Struct):
    """One text, or a piece of it. `stop_reason` and `token_ids` are vLLM's."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | UnsetType | None = UNSET
    token_ids: Sequence[int] | UnsetType = UNSET


class Echo(NamedTuple):
    """The prompt as a part of the answer.

    Attributes:
        text: the prompt.
        steps: its logprobs; None if the client did not ask for them.
        special_ids: the special tokens; `text` may lack some that `steps` have.
    """

    text: str
    steps: Sequence[TokenLogprobs | LogprobEntry] | None = None
    special_ids: Set[int] = frozenset()

    def logprobs(self, lists: CompletionLogprobsStream) -> CompletionLogprobs | None:
        """Return the logprobs of the prompt."""
        if self.steps is None:
            return None
        return lists.feed(self.steps, prompt=self.text, special_ids=self.special_ids)


class CompletionWriter:
    """Writes one choice of streamed completions. See `ChoiceWriter`."""

    strip = None

    def __init__(self, index: int, head: StreamHead, echo: Echo | None = None) -> None:
        self._index = index
        self._echo = echo
        self._lists = _lists_of(head)

    def opening(self) -> list[Any]:
        """Return the prompt if it is echoed; otherwise a completion begins with its text."""
        if self._echo is None:
            return []
        lists = self._echo.logprobs(self._lists)
        return [CompletionChoice(self._index, self._echo.text, lists)]

    def text(self, text: str) -> CompletionChoice:
        """Return a piece of text."""
        return CompletionChoice(self._index, text)

    def news(self, chunk: StreamChunk) -> list[Any]:
        """Return the text of a chunk, if it has any."""
        return [CompletionChoice(self._index, chunk.text)] if chunk.text else []

    def last(self, chunk: StreamChunk) -> CompletionChoice:
        """Return an empty text with the reason."""
        return CompletionChoice(
            self._index, "", finish_reason=chunk.reason.openai(), stop_reason=chunk.stop_reason
        )

    def logprobs(self, steps: Sequence[TokenLogprobs]) -> CompletionLogprobs:
        """Return the logprobs of some steps."""
        return self._lists.feed(steps)


def _lists_of(head: StreamHead) -> CompletionLogprobsStream:
    return CompletionLogprobsStream(as_ids=head.tokens_as_ids, hidden_ids=head.hidden_ids)


def completion_stream(head: StreamHead, echoes: Sequence[Echo] = ()) -> SseStream:
    """Return the events of completions; choices are numbered across all prompts.

    Args:
        head: the part of the answer that is known before the first token.
        echoes: for each choice its prompt, or none at all.
    """
    writers = [
        CompletionWriter(index, head, echoes[index] if echoes else None)
        for index in range(head.choices)
    ]
    return SseStream(head, OBJECT, writers)


def completion_response(
    head: StreamHead, outputs: Iterable[CompletionOutput], echoes: Sequence[Echo] = ()
) -> StreamResponse:
    """Return the answer made of finished choices; a choice's index is its place.

    Args:
        head: as for a stream; its options of streaming are ignored.
        outputs: the choices, prompt by prompt.
        echoes: for each choice its prompt, or none at all.

    Raises:
        ApiError: 500, or 502 if a remote model is at fault; a choice was cut short.
    """
    prompt = UNSET if head.prompt_token_ids is None else head.prompt_token_ids
    choices, completion_tokens = [], 0
    for index, output in enumerate(outputs):
        if not output.finish_reason.is_complete:
            raise broken_off(output.finish_reason, output.error)
        completion_tokens += len(output.token_ids)
        echo = echoes[index] if echoes else Echo("")
        stream = _lists_of(head)
        prompt_lists = echo.logprobs(stream)
        parts = [] if prompt_lists is None else [prompt_lists]
        if output.logprobs:
            parts.append(stream.feed(output.logprobs))
        lists = joined(parts) if parts else None
        choices.append(
            CompletionChoice(
                index,
                echo.text + output.text,
                lists,
                output.finish_reason.openai(),
                output.stop_reason,
                UNSET if prompt is UNSET else output.token_ids,
            )
        )
    usage = Usage.of(head.prompt_tokens, completion_tokens)
    return StreamResponse(head.id, OBJECT, head.created, head.model, choices, usage, prompt)
