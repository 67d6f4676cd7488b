"""The sampling fields of a request, which are the same for chats and completions."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import field

from mini_vllm.engine import SamplingParams
from mini_vllm.server.endpoints.request_body import check_at_most
from mini_vllm.server.endpoints.structured_outputs import (
    GUIDED,
    ResponseFormat,
    StructuredOutputs,
)
from mini_vllm.server.service import Limits
from mini_vllm.server.wire.api_errors import invalid


class Unsupported(msgspec.Struct, kw_only=True):
    """Fields that would change the answer but are not implemented.

    Each defaults to its neutral value; any other value except null is refused, not ignored. Fields
    without influence on the answer, such as `user` or `store`, are skipped.
    """

    allowed_token_ids: Any = None
    audio: Any = None
    bad_words: Any = []
    chat_template: Any = None
    continue_final_message: Any = False
    documents: Any = None
    echo: Any = False
    function_call: Any = None
    functions: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None
    guided_json: Any = None
    guided_regex: Any = None
    include_reasoning: Any = True
    length_penalty: Any = 1
    logits_processors: Any = None
    logprob_token_ids: Any = None
    modalities: Any = field(default_factory=lambda: ["text"])
    prompt_embeds: Any = None
    prompt_logprobs: Any = None
    repetition_detection: Any = None
    return_prompt_text: Any = False
    return_token_offsets: Any = False
    spaces_between_special_tokens: Any = True
    suffix: Any = ""
    thinking_token_budget: Any = None
    truncate_prompt_tokens: Any = None
    use_beam_search: Any = False
    watermarking: Any = False
    web_search_options: Any = None


_NEUTRAL = msgspec.structs.asdict(Unsupported())
_LONGEST_ID = 10


class StreamOptions(msgspec.Struct):
    """How to stream.

    Attributes:
        include_usage: end with a chunk that counts the tokens.
        continuous_usage_stats: also count them in every chunk; a field of vLLM's.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationRequest(Unsupported, kw_only=True):
    """The fields that chats and completions share. Null means the same as an absent field.

    Attributes:
        supported: fields of `Unsupported` that this kind of request does support.
        stop: one stop string or several.
        best_of: as many as `n`, which changes nothing.
        verbosity: advice to models that know it, without influence here.
        logit_bias: by token id, which is a string in JSON.
        return_token_ids: add the ids of prompt and answer, as vLLM does.
        return_tokens_as_token_ids: name the tokens of logprobs by their ids, as vLLM does.
        return_held: a field of our own: add to each event the text that the layers of the text path
            hold, and the text of its ids, each decoded by itself.
    """

    supported: ClassVar[frozenset[str]] = frozenset()
    model: str | None = None
    n: int | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, Any] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    best_of: int | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    return_held: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a count of the tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Whether every chunk counts the tokens so far."""
        options = self.stream_options
        return bool(options and options.include_usage and options.continuous_usage_stats)

    @property
    def max_tokens_param(self) -> tuple[str, int | None]:
        """The field that limits the tokens of the answer, and its value."""
        return "max_tokens", self.max_tokens


@cache
def _unsupported(
    kind: type[GenerationRequest],
) -> tuple[dict[str, Any], Callable[[GenerationRequest], tuple[Any, ...]]]:
    """Return the neutral values of the fields that a kind of request lacks, and their getter."""
    neutral = {name: _NEUTRAL[name] for name in _NEUTRAL if name not in kind.supported}
    return neutral, attrgetter(*neutral)


def check_generation(request: GenerationRequest) -> None:
    """Refuse fields that are not implemented, and stream options without a stream.

    Raises:
        ApiError: 400; it names the field.
    """
    neutral, values_of = _unsupported(type(request))
    values = values_of(request)
    # Requests rarely have such fields, so all values are compared at once.
    if values != (*neutral.values(),):
        for name, value in zip(neutral, values, strict=True):
            if value is not None and value != neutral[name]:
                problem = GUIDED.get(name, "is not implemented; leave it out")
                raise invalid(name, problem, code="unsupported_parameter")
    if request.best_of not in (None, request.n or 1):
        problem = f"is {request.best_of}; it must be n, which is {request.n or 1}, or left out"
        raise invalid("best_of", problem, code="unsupported_parameter")
    if request.stream_options is not None and not request.stream:
        raise invalid("stream_options", "is for streams only; set stream to true or leave it out")


def to_sampling_params(
    request: GenerationRequest,
    limits: Limits,
    default_max_tokens: int,
    logprobs_param: tuple[str, int | None],
) -> SamplingParams:
    """Return the sampling parameters of a request, checked against the limits.

    Args:
        request: a decoded request.
        limits: how much the request may ask for.
        default_max_tokens: the most tokens of the answer if the request sets no limit.
        logprobs_param: the field with the number of likeliest tokens to report, and its value.

    Raises:
        ApiError: 400; it names the field, its value and the range.
    """
    tokens_field, max_tokens = request.max_tokens_param
    logprobs_field, logprobs = logprobs_param
    stop_ids = request.stop_token_ids or []
    for name, value, least, most in (
        ("n", request.n, 1, limits.max_n),
        (tokens_field, max_tokens, 1, None),
        ("min_tokens", request.min_tokens, 0, None),
        ("temperature", request.temperature, 0, 2),
        ("top_p", request.top_p, 0, 1),
        ("top_k", request.top_k, -1, None),
        ("min_p", request.min_p, 0, 1),
        ("presence_penalty", request.presence_penalty, -2, 2),
        ("frequency_penalty", request.frequency_penalty, -2, 2),
        ("seed", request.seed, -(2**63), 2**63 - 1),
        (logprobs_field, logprobs, 0, limits.max_top_logprobs),
        *((f"stop_token_ids[{i}]", id, 0, None) for i, id in enumerate(stop_ids)),
    ):
        if value is not None:
            _check_range(name, value, least, most)
    if request.top_p == 0:
        raise invalid("top_p", "is 0; it must be above 0 and at most 1")
    if request.repetition_penalty is not None and request.repetition_penalty <= 0:
        raise invalid("repetition_penalty", f"is {request.repetition_penalty}; it must be above 0")
    if max_tokens is None:
        max_tokens = default_max_tokens
    min_tokens = request.min_tokens or 0
    if min_tokens > max_tokens:
        raise invalid("min_tokens", f"is {min_tokens}; at most {max_tokens} tokens may be made")
    fields = {name: getattr(request, name) for name in _SAME}
    return SamplingParams(
        max_tokens=max_tokens,
        stop=_stops(request.stop, limits),
        stop_token_ids=frozenset(stop_ids),
        logprobs=logprobs,
        logit_bias=_logit_bias(request.logit_bias or {}, limits),
        **{name: value for name, value in fields.items() if value is not None},
    )


# Fields that the engine knows by the same name and meaning.
_SAME = (
    "min_tokens",
    "include_stop_str_in_output",
    "ignore_eos",
    "n",
    "skip_special_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
)


def _check_range(name: str, value: float, least: int, most: int | None) -> None:
    if least <= value and (most is None or value <= most):
        return
    allowed = f"at least {least}" if most is None else f"from {least} to {most}"
    raise invalid(name, f"is {str(value)[:60]}; it must be {allowed}")


def _logit_bias(bias: dict[str, Any], limits: Limits) -> dict[int, float] | None:
    check_at_most("logit_bias", len(bias), limits.max_logit_bias, "tokens")
    for key, value in bias.items():
        if not (key.isascii() and key.isdecimal() and len(key) < _LONGEST_ID):
            raise invalid("logit_bias", f"has the key {key[:60]!r}; keys are token ids")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise invalid(f"logit_bias.{key}", f"is {value!r:.60}; it must be a number")
        _check_range(f"logit_bias.{key}", value, -100, 100)
    return {int(key): float(value) for key, value in bias.items()} or None


def _stops(stop: str | list[str] | None, limits: Limits) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    check_at_most("stop", len(stops), limits.max_stops, "strings")
    for index, text in enumerate(stops):
        name = "stop" if isinstance(stop, str) else f"stop[{index}]"
        if not text:
            raise invalid(name, "is empty; leave it out")
    check_at_most("stop", sum(map(len, stops)), limits.max_stop_chars, "characters in all")
    return tuple(stops)
