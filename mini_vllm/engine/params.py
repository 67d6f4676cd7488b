"""How to generate, in vLLM's names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to generate, in vLLM's names.

    Attributes:
        max_tokens: most ids of one choice, at least 1.
        min_tokens: neither a stop nor EOS counts among the first so many ids.
        stop: stop strings.
        stop_token_ids: ids that end the generation.
        include_stop_str_in_output: show what stopped.
        ignore_eos: go on after EOS.
        n: choices.
        logprobs: how many of the likeliest tokens to report beside the chosen one, or None for no
            logprobs at all.
        skip_special_tokens: leave special tokens out of the text.
        temperature: 0 takes the likeliest token; a model may use it or not.
        top_p: sample from the likeliest tokens that make up so much probability, above 0, to 1.
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
