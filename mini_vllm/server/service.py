"""The service that all endpoints share: one model, the parts that serve it, and request limits."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, Protocol

from mini_vllm.engine import (
    ContextLengthError,
    Engine,
    EngineThread,
    MakeTextPath,
    Model,
    Request,
    StreamChannel,
    StreamChunk,
    TextPathFactory,
    read_together,
)
from mini_vllm.engine.replacement_runs import without_replacement_runs
from mini_vllm.server.item_store import ItemStore
from mini_vllm.server.prometheus_metrics import PrometheusMetrics
from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.server.wire.chat_stream import chat_stream
from mini_vllm.server.wire.sse import Events, StreamHead
from mini_vllm.text.formats import find_format
from mini_vllm.tokenizer import CacheConfig, CachedTokenizer, ChatTemplate
from mini_vllm.tokenizer.adapter import as_tokenizer
from mini_vllm.tokenizer.metered import MeteredTokenizer
from mini_vllm.tokenizer.protocols import Tokenizer, metrics_of

_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may ask for.

    The length of prompt and answer together is the model's limit, counted in tokens. The limits of
    characters here bound the work before encoding.

    Attributes:
        max_body_bytes: of the body; a longer body is status 413, any other excess is 400.
        max_messages: messages of a conversation.
        max_prompt_chars: characters of all prompts or messages together; an id counts as one.
        max_stops: stop strings. OpenAI allows 4, vLLM any number.
        max_stop_chars: characters of all stop strings together; the automaton has a state for each.
        max_tools: tools. OpenAI allows 128.
        max_schema_depth: how deeply a value that a schema demands, or a variable of the template,
            may be nested; schemas, also of tools, may be nested twice as deeply.
        max_n: choices for each prompt; the default is vLLM's limit. `create_service` lowers this
            and `max_choices` to the number of choices that the engine can run or queue.
        max_choices: choices of all prompts together.
        max_logit_bias: tokens with a bias. OpenAI allows 300.
        max_top_logprobs: likeliest tokens to report for each token. OpenAI allows 20.
    """

    max_body_bytes: int = 4 * 2**20
    max_messages: int = 2048
    max_prompt_chars: int = 1_000_000
    max_stops: int = 256
    max_stop_chars: int = 8192
    max_tools: int = 128
    max_schema_depth: int = 16
    max_n: int = 16_384
    max_choices: int = 16_384
    max_logit_bias: int = 1024
    max_top_logprobs: int = 20


DEFAULT_LIMITS = Limits()
ReadChannels = Callable[
    [Sequence[StreamChannel]], AsyncGenerator[list[tuple[int, StreamChunk]], None]
]


# From a prompt's ids to the logprobs by id for each: of the id and of a number of likeliest ids.
PromptLogprobs = Callable[[Sequence[int], int], Sequence[Mapping[int, float] | None]]


class MakeChatStream(Protocol):
    """Makes the events of a streamed chat from its chunks; see `MessageFold` for the options."""

    def __call__(
        self,
        head: StreamHead,
        request: Request,
        *,
        named_function: bool,
        parallel_tool_calls: bool,
        only_calls: bool,
        strip: bool,
    ) -> Events:
        """Return the events.

        Raises:
            ApiError: 400; they cannot serve this request.
        """
        ...


def _chat_stream(head: StreamHead, request: Request, **options: Any) -> Events:
    return chat_stream(head, **options)


@dataclass(frozen=True, slots=True)
class Wire:
    """The way of a stream's chunks from the engine to the client.

    Attributes:
        read: reads the channels of a stream.
        chat_stream: makes the events of a chat from its chunks.
        tells_stop: whether these events have `stop_reason`; a whole answer has it if they do.
    """

    read: ReadChannels = read_together
    chat_stream: MakeChatStream = _chat_stream
    tells_stop: bool = True


@dataclass(slots=True)
class Service:
    """One model, served.

    Attributes:
        engine: makes the tokens.
        thread: steps the engine.
        tokenizer: the model's, with an encode cache.
        chat_template: the model's.
        model_name: the name by which clients ask for the model.
        metrics: the numbers for `/metrics`.
        limits: how much one request may ask for.
        default_max_tokens: the most tokens of a chat that sets no limit itself.
        tool_format: the format of the model's tool calls, or None.
        call_format: the format in which calls are demanded, or None for a JSON list.
        reasoning_format: the format of the model's reasoning, or None.
        can_say: whether the model writes the `say` text of a chat, as a `Sayer` does.
        tool_examples: texts for `say`, for people: a call in each tool-call format.
        note: the owner of each layer's code, for people; "" if there is nothing to say.
        body_seconds: how long the body of a request may take to arrive.
        ping_seconds: after this much silence a stream sends a comment.
        strip: whether clients get the content without the white space around tool calls.
        wire: the way of a stream to its client.
        stored_items: the items of the latest responses.
        prompt_logprobs: returns the model's logprobs of a prompt; None if the model has none.
        takes_logit_bias: whether the model samples the tokens that a bias is about.
        model_reasons: whether the model may reason before its answer, without `say`.
        model_problem: returns why a remote model cannot answer, or None if it can; None for a
            local model.
        created: when the service was made, in seconds since 1970.
    """

    engine: Engine
    thread: EngineThread
    tokenizer: CachedTokenizer
    chat_template: ChatTemplate
    model_name: str
    metrics: PrometheusMetrics
    limits: Limits = DEFAULT_LIMITS
    default_max_tokens: int = 512
    tool_format: str | None = None
    call_format: str | None = None
    reasoning_format: str | None = None
    can_say: bool = False
    tool_examples: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    body_seconds: float = 30.0
    ping_seconds: float = 15.0
    strip: bool = False
    wire: Wire = Wire()
    stored_items: ItemStore = field(default_factory=lambda: ItemStore(0))
    prompt_logprobs: PromptLogprobs | None = None
    takes_logit_bias: bool = True
    model_reasons: bool = True
    model_problem: Callable[[], Awaitable[str | None]] | None = None
    created: int = field(default_factory=lambda: int(time()))

    def check_model(self, name: str | None) -> None:
        """Check that a request names the served model, or no model at all.

        Raises:
            ApiError: 404.
        """
        if name is not None and name != self.model_name:
            raise ApiError(
                404,
                f"model: {name[:100]!r} is not served here; {self.model_name!r} is",
                param="model",
                code="model_not_found",
            )

    def reads_markers(self, *, calls: bool) -> bool:
        """Return whether a chat's text is searched for markers, given whether it may have calls."""
        if self.reasoning_format is not None:
            return True
        format = None if self.tool_format is None else find_format(self.tool_format)
        return format is not None and (calls or format.marks_reasoning)

    def naive(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids, each decoded by itself, which is wrong, as the course shows."""
        known = [token_id for token_id in token_ids if 0 <= token_id < self.tokenizer.vocab_size]
        return "".join(self.tokenizer.decode([token_id]) for token_id in known)

    def room_after(
        self, prompt: Sequence[int], param: str, max_tokens_param: tuple[str, int | None]
    ) -> int:
        """Return how many tokens the answer to a prompt may have.

        Args:
            prompt: the ids.
            param: the field of the prompt.
            max_tokens_param: the field that limits the tokens of the answer, and its value.

        Raises:
            ApiError: 400; no token fits, or fewer than requested.
        """
        name, max_tokens = max_tokens_param
        try:
            return self.engine.intake.room_after(len(prompt), max_tokens or 1)
        except ContextLengthError as error:
            raise ApiError(
                400,
                error.message(param),
                param=param if error.prompt_is_too_long else name,
                code="context_length_exceeded",
            ) from error


def create_service(
    model: Model,
    tokenizer: Tokenizer,
    chat_template: ChatTemplate,
    model_name: str,
    *,
    metrics: PrometheusMetrics | None = None,
    cache: CacheConfig | None = None,
    max_num_seqs: int = 32,
    max_model_len: int = 8192,
    max_waiting: int = 256,
    make_text_path: MakeTextPath | None = None,
    stop_scope: str = "all",
    suppress_replacement_runs: bool = False,
    hooks: Mapping[str, Callable[[], object]] | None = None,
    **options: Any,
) -> Service:
    """Return the service of a model: its engine, thread, cache and metrics, wired up.

    Args:
        model: makes the ids.
        tokenizer: the model's; it may also be a tokenizer of the `tokenizers` library. It is
            metered here, unless it already is.
        chat_template: the model's.
        model_name: the name by which clients ask for the model.
        metrics: the metrics to which the tokenizer already reports; by default new metrics.
        cache: the levels of the encode cache; by default the levels that the tokenizer allows.
        max_num_seqs: choices that run at the same time.
        max_model_len: tokens of prompt and answer together.
        max_waiting: choices that wait for a slot; further choices are refused.
        make_text_path: makes the text path of a choice; by default the engine's own pipeline.
        stop_scope: of that pipeline.
        suppress_replacement_runs: leave out U+FFFD at the end of an answer.
        hooks: of the engine.
        **options: further attributes of `Service`. The formats are for the engine's own pipeline:
            with `make_text_path` they are ignored.

    Raises:
        ValueError: a format is unknown, or the tokenizer does not allow a level of the cache.
    """
    metrics = metrics or PrometheusMetrics()
    options = {**options, "call_format": options.get("tool_format")}
    if make_text_path is not None:
        options = {**options, "tool_format": None, "reasoning_format": None}
    tokenizer = as_tokenizer(tokenizer)
    if metrics_of(tokenizer) is None:
        tokenizer = MeteredTokenizer(tokenizer, metrics.tokenizer)
    # No endpoint reads the tokens and offsets of a prompt.
    cache = replace(cache or CacheConfig().suited_to(tokenizer), only_ids=True)
    cached = CachedTokenizer(tokenizer, cache)
    path = make_text_path or TextPathFactory(
        cached,
        tool_format=options.get("tool_format"),
        reasoning_format=options.get("reasoning_format"),
        stop_scope=stop_scope,
    )
    # Blocks for every slot at full length, so that no slot ever waits for blocks.
    num_blocks = max_num_seqs * -(-max_model_len // _BLOCK_SIZE)
    engine = Engine(
        model,
        cached,
        max_num_seqs=max_num_seqs,
        num_blocks=num_blocks,
        block_size=_BLOCK_SIZE,
        max_model_len=max_model_len,
        max_waiting=max_waiting,
        make_text_path=without_replacement_runs(path) if suppress_replacement_runs else path,
        hooks=hooks,
        metrics=metrics,
    )
    chat_template = chat_template.with_special_tokens(tokenizer.special_tokens.all())
    if chat_template.trusted:
        # Compiled now, and not on the loop by the first request.
        chat_template.validate()
    metrics.watch(engine.stats, cached, model_name=model_name, num_blocks=num_blocks)
    most = max_num_seqs + max_waiting
    limits = options.get("limits", DEFAULT_LIMITS)
    options["limits"] = replace(
        limits, max_n=min(limits.max_n, most), max_choices=min(limits.max_choices, most)
    )
    options.setdefault("prompt_logprobs", getattr(model, "prompt_logprobs", None))
    options.setdefault("takes_logit_bias", getattr(model, "takes_logit_bias", True))
    options.setdefault("model_reasons", getattr(model, "reasons", True))
    return Service(
        engine, EngineThread(engine), cached, chat_template, model_name, metrics, **options
    )
