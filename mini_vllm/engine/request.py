"""A request to the engine: a prompt, and how to continue it."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class StructuredOutputsParams:
    """The form that an output must have, in vLLM's names; exactly one kind is given.

    Attributes:
        json: a JSON schema as JSON text: the output is a value that it allows.
        regex: the whole output matches it, in the syntax of Rust's regex crate without
            look-around; `\\d` and `\\w` match ASCII only.
        choice: the output is one of these texts.
        grammar: the output is a text of this grammar, in GBNF or in llguidance's Lark.
        json_object: the output is any JSON object.
        disable_any_whitespace: no white space between the tokens of JSON.

    Raises:
        ValueError: no kind or several kinds are given, or the value is empty; the message names
            the kind.
    """

    json: str | None = None
    regex: str | None = None
    choice: tuple[str, ...] | None = None
    grammar: str | None = None
    json_object: bool = False
    disable_any_whitespace: bool = False

    def __post_init__(self) -> None:
        kinds = {
            "json": self.json,
            "regex": self.regex,
            "choice": self.choice,
            "grammar": self.grammar,
            "json_object": self.json_object or None,
        }
        names = [name for name, value in kinds.items() if value is not None]
        if len(names) != 1:
            raise ValueError(f"has {', '.join(names) or 'no kind'}; give one of {', '.join(kinds)}")
        if not kinds[names[0]] or "" in (self.choice or ()):
            raise ValueError(f"{names[0]} is empty or has an empty text; give it a text")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to generate, in vLLM's names.

    Attributes:
        max_tokens: most ids of one choice, at least 1.
        min_tokens: neither a stop nor EOS counts among the first `min_tokens` ids.
        stop: stop strings.
        stop_token_ids: ids that end the generation.
        include_stop_str_in_output: include the matched stop in the text.
        ignore_eos: continue after EOS.
        n: how many choices.
        logprobs: how many of the likeliest tokens to report besides the chosen token, or None for
            no logprobs at all.
        skip_special_tokens: leave special tokens out of the text.
        temperature: 0 takes the likeliest token. A model may ignore this and the fields below. The
            n-gram model uses them, a remote model is sent all of them, and a script ignores them.
        top_p: sample from the likeliest tokens that together have this probability, above 0 and at
            most 1.
        top_k: sample from this many of the likeliest tokens; 0 or -1 for all.
        min_p: leave out tokens that are less likely than this fraction of the highest probability,
            from 0 to 1.
        repetition_penalty: above 1 makes tokens of prompt and output less likely, below 1 more.
        presence_penalty: subtracted once from the logit of each token of the output, from -2 to 2.
        frequency_penalty: subtracted for each time that the token is in the output, from -2 to 2.
        logit_bias: numbers to add to the logits of tokens, by id, from -100, which bans a token,
            to 100.
        seed: makes sampling repeatable, or None.
        structured_outputs: the form that the output must have, or None for any text.

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
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    # A dict has no hash; equality still compares it.
    logit_bias: Mapping[int, float] | None = field(default=None, hash=False)
    seed: int | None = None
    structured_outputs: StructuredOutputsParams | None = None

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            raise ValueError(f"stop is the str {self.stop!r}; it must be a tuple of strings")
        for stop in self.stop:
            if not isinstance(stop, str) or not stop:
                raise ValueError(f"stop has {stop!r}; it must be strings, none of them empty")
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
        if self.structured_outputs and (self.ignore_eos or self.min_tokens):
            name = "ignore_eos" if self.ignore_eos else "min_tokens"
            raise ValueError(f"{name} with structured_outputs: the grammar decides where text ends")
        if not self.temperature >= 0:
            raise ValueError(f"temperature is {self.temperature}; it must be at least 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if self.top_k < -1:
            raise ValueError(f"top_k is {self.top_k}; it must be at least -1")
        if not 0 < self.repetition_penalty < float("inf"):
            raise ValueError(f"repetition_penalty is {self.repetition_penalty}; it must be above 0")
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is {value}; it must be from {least} to {most}")

    @property
    def banned_token_ids(self) -> Set[int]:
        """The tokens that the bias forbids."""
        if not self.logit_bias:
            return frozenset()
        return {token_id for token_id, bias in self.logit_bias.items() if bias <= -100}

    @property
    def has_penalties(self) -> bool:
        """Whether a penalty changes the logits of earlier tokens."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
        )


_RANGES = (("min_p", 0, 1), ("presence_penalty", -2, 2), ("frequency_penalty", -2, 2))


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt to be continued.

    Attributes:
        prompt: text, or ids to use unchanged.
        params: how to continue it.
        request_id: a name that no other running request has; None lets the engine choose one.
        tools: the functions whose calls are separated from text; with None, calls remain text.
        tool_format: the format of their calls; None for the format of the server's model.
        whole_calls: whether a call that breaks off becomes text, for readers that get the answer
            whole; otherwise the events that announced it remain.
        parallel_tool_calls: false drops every call after the first if `whole_calls` is true. A
            stream keeps them: its reader distinguishes them by their index.
        split_reasoning: whether the model's reasoning is separated from its answer.
        thinking: whether the prompt ends inside the model's reasoning; None for the format's
            default.
    """

    prompt: str | tuple[int, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    request_id: str | None = None
    tools: tuple[Mapping[str, Any], ...] | None = None
    tool_format: str | None = None
    whole_calls: bool = False
    parallel_tool_calls: bool = True
    split_reasoning: bool = True
    thinking: bool | None = None
