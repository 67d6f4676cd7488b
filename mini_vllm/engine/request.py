"""What is asked of the engine, and what it answers as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mini_vllm.engine.chunk import TokenLogprobs
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.params import SamplingParams
from mini_vllm.text.events import Event


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be continued.

    Attributes:
        prompt: text, or ids as they are.
        params: how.
        request_id: a name of its own among all that run; None lets the engine choose one.
        tools: the functions whose calls are to be told from text; None leaves all of it text.
        split_reasoning: whether the model's reasoning is to be told from its answer.
        thinking: whether the prompt ends inside the model's reasoning; None for what is usual.
    """

    prompt: str | tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    request_id: str | None = None
    tools: tuple[Mapping[str, Any], ...] | None = None
    split_reasoning: bool = True
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One finished choice.

    Attributes:
        request_id: whose.
        index: which of the request's choices, from 0.
        token_ids: all that were generated; an EOS or stop id that ended it is the last.
        text: all text; equal to that of a stream's chunks together.
        finish_reason: why it ended.
        stop_reason: the stop string or stop id that ended it.
        logprobs: one for each id, where they were asked for.
        events: text, reasoning and tool calls in their order.
        error: what went wrong, if `finish_reason` is ERROR.
    """

    request_id: str
    index: int
    token_ids: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    stop_reason: str | int | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()
    events: tuple[Event, ...] = ()
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """The finished choices of one submission, request by request, choice by choice."""

    outputs: tuple[CompletionOutput, ...]

    @property
    def output_ids(self) -> list[list[int]]:
        """The ids of each choice."""
        return [list(output.token_ids) for output in self.outputs]

    @property
    def texts(self) -> list[str]:
        """The text of each choice."""
        return [output.text for output in self.outputs]

    @property
    def finish_reasons(self) -> list[FinishReason]:
        """Why each choice ended."""
        return [output.finish_reason for output in self.outputs]

    @property
    def logprobs(self) -> list[Sequence[TokenLogprobs]]:
        """The logprobs of each choice."""
        return [output.logprobs for output in self.outputs]
