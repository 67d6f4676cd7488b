"""What is asked of the engine: a prompt, and how to continue it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to generate, in vLLM's names.

    Attributes:
        max_tokens: most ids of one choice, at least 1.
        min_tokens: neither a stop nor EOS counts among the first `min_tokens` ids.
        stop: stop strings.
        stop_token_ids: ids that end the generation.
        include_stop_str_in_output: show what stopped.
        ignore_eos: go on after EOS.
        n: how many choices.
        logprobs: how many of the likeliest tokens to report beside the chosen one, or None for no
            logprobs at all.
        skip_special_tokens: leave special tokens out of the text.
        temperature: 0 takes the likeliest token; a model may use it or not.
        top_p: sample from the likeliest tokens that make up this much probability, above 0 and at
            most 1.
        seed: makes sampling repeatable, or None.

    Raises:
        ValueError: a value is out of its range; the message names the field.
    """

    max_tokens: int = 16
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    n: int = 1
    logprobs: int | None = None
    skip_special_tokens: bool = True
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            raise ValueError(f"stop is the str {self.stop!r}; it must be a tuple of strings")
        for one in self.stop:
            if not isinstance(one, str) or not one:
                raise ValueError(f"stop has {one!r}; it must be strings, none of them empty")
        if not isinstance(self.stop_token_ids, frozenset):
            raise ValueError(f"stop_token_ids is {self.stop_token_ids!r}; it must be a frozenset")
        for name, least in (("max_tokens", 1), ("min_tokens", 0), ("n", 1), ("logprobs", 0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= least):
                raise ValueError(f"{name} is {value!r}; it must be an int, at least {least}")
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens is {self.min_tokens}; it must not be over max_tokens, "
                f"{self.max_tokens}"
            )
        if not self.temperature >= 0:
            raise ValueError(f"temperature is {self.temperature}; it must be at least 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be continued.

    Attributes:
        prompt: text, or ids as they are.
        params: how to continue it.
        request_id: a name that no other running request has; None lets the engine choose one.
        tools: the functions whose calls are to be told from text; None leaves all of it text.
        tool_format: in which their calls are written; None for the format of the server's model.
        whole_calls: whether a call that breaks off is to be text, for readers who get everything at
            the end; otherwise what was announced of it stands.
        split_reasoning: whether the model's reasoning is to be told from its answer.
        thinking: whether the prompt ends inside the model's reasoning; None for the format's
            default.
    """

    prompt: str | tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    request_id: str | None = None
    tools: tuple[Mapping[str, Any], ...] | None = None
    tool_format: str | None = None
    whole_calls: bool = False
    split_reasoning: bool = True
    thinking: bool | None = None
