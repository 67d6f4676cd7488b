"""`/v1/completions`: its request and its answer."""

import secrets
from collections.abc import Sequence
from time import time
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from mini_vllm.engine import (
    CompletionOutput,
    FinishReason,
    Request,
    SamplingParams,
    StreamChunk,
)
from mini_vllm.server.endpoints.echo import echo_of, special_ids_of
from mini_vllm.server.endpoints.prompts import check_known, check_logit_bias, text_prompt
from mini_vllm.server.endpoints.replies import (
    STREAM_HEADERS,
    Reply,
    reply_whole,
    stream_reply,
)
from mini_vllm.server.endpoints.request_body import check_at_most, decode_body, read_body
from mini_vllm.server.endpoints.sampling import (
    GenerationRequest,
    check_generation,
    to_sampling_params,
)
from mini_vllm.server.endpoints.structured_outputs import constrain
from mini_vllm.server.service import Limits, Service
from mini_vllm.server.wire.api_errors import JsonResponse, invalid
from mini_vllm.server.wire.completion_stream import Echo, completion_response, completion_stream
from mini_vllm.server.wire.sse import StreamHead

_DEFAULT_MAX_TOKENS = 16
Prompt = str | list[int]


class CompletionRequest(GenerationRequest, kw_only=True):
    """Texts to continue.

    Attributes:
        prompt: a text, its ids, or a list of either.
        logprobs: how many likeliest tokens to report for each token.
        echo: begin the answer with the prompt; `max_tokens` may then be 0.
    """

    supported = frozenset(["echo"])
    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    add_special_tokens: bool = True

    @property
    def prompts(self) -> list[Prompt]:
        """The prompts, one by one."""
        prompt: Any = self.prompt
        return [prompt] if isinstance(prompt, str) or isinstance(prompt[0], int) else prompt

    @property
    def logprobs_param(self) -> tuple[str, int | None]:
        """The field with the number of likeliest tokens to report, and its value."""
        return "logprobs", self.logprobs


def decode_completion_request(body: bytes, limits: Limits) -> CompletionRequest:
    """Return the request of a body.

    Raises:
        ApiError: 400; it names the field.
    """
    request = decode_body(body, CompletionRequest)
    check_generation(request)
    if request.prompt == []:
        raise invalid("prompt", "is an empty list; send a text or ids")
    if len({type(item) for item in request.prompt}) > 1:
        raise invalid("prompt", "mixes kinds; send one text, its ids, or a list of either")
    for prompt in request.prompts:
        _check_prompt("prompt", prompt)
    length = sum(len(prompt) for prompt in request.prompts)
    check_at_most("prompt", length, limits.max_prompt_chars, "characters or ids in all")
    choices = len(request.prompts) * (request.n or 1)
    check_at_most("prompt", choices, limits.max_choices, "choices in all, prompts times n")
    return request


def _check_prompt(param: str, prompt: Prompt) -> None:
    """Check that a prompt is not an empty list and has no negative ids.

    Raises:
        ApiError: 400; it names the field.
    """
    if prompt == []:
        raise invalid(param, "has an empty list; send a text or ids")
    if isinstance(prompt, list) and min(prompt) < 0:
        raise invalid(param, f"has the id {str(min(prompt))[:60]}; ids begin at 0")


async def completions(raw_request: HttpRequest) -> Reply:
    """Continue texts. Choices are numbered across all prompts.

    Raises:
        ApiError: the request is refused.
    """
    service: Service = raw_request.app.state.service
    request = decode_completion_request(await read_body(raw_request, service), service.limits)
    service.check_model(request.model)
    prompts = [await _token_ids(service, request, prompt) for prompt in request.prompts]
    room = min(service.room_after(prompt, "prompt", request.max_tokens_param) for prompt in prompts)
    only_echo = bool(request.echo) and request.max_tokens == 0
    if only_echo:
        request.max_tokens = 1
    params = to_sampling_params(
        request, service.limits, min(room, _DEFAULT_MAX_TOKENS), request.logprobs_param
    )
    check_logit_bias(service, params)
    if request.return_token_ids and len(prompts) > 1:
        raise invalid("return_token_ids", "is for a single prompt; send one, or leave it out")
    head = StreamHead(
        id=f"cmpl-{secrets.token_hex(12)}",
        created=int(time()),
        model=request.model or service.model_name,
        choices=len(prompts) * params.n,
        prompt_tokens=sum(map(len, prompts)),
        include_usage=request.include_usage,
        continuous_usage=request.continuous_usage,
        prompt_token_ids=prompts[0] if request.return_token_ids else None,
        tokens_as_ids=bool(request.return_tokens_as_token_ids),
        hidden_ids=special_ids_of(service.tokenizer)
        if params.logprobs is not None and params.skip_special_tokens
        else frozenset(),
        naive=service.naive if request.return_held else None,
    )
    echoes = await _echoes(service, request, prompts, params)
    if only_echo:
        return _only_echo(head, echoes, stream=bool(request.stream))
    # A completion is the whole text; the client interprets it.
    engine_requests = [Request(prompt, params, split_reasoning=False) for prompt in prompts]
    engine_requests = [
        await constrain(service, engine_request, request) for engine_request in engine_requests
    ]
    if request.stream:
        events = completion_stream(head, echoes)
        return stream_reply(service, engine_requests, events, request.return_held)
    return await reply_whole(
        service,
        engine_requests,
        raw_request.receive,
        lambda outputs: completion_response(head, outputs, echoes),
    )


async def _echoes(
    service: Service,
    request: CompletionRequest,
    prompts: Sequence[tuple[int, ...]],
    params: SamplingParams,
) -> list[Echo]:
    """Return the prompt of each choice, if it is echoed."""
    if not request.echo:
        return []
    echoes = [
        await echo_of(service, prompt, token_ids, params.logprobs)
        for prompt, token_ids in zip(request.prompts, prompts, strict=True)
    ]
    return [echo for echo in echoes for _ in range(params.n)]


def _only_echo(head: StreamHead, echoes: Sequence[Echo], *, stream: bool) -> Response:
    """Return an answer that needs no model."""
    reason = FinishReason.LENGTH
    if not stream:
        outputs = [CompletionOutput("", index, (), "", reason) for index in range(len(echoes))]
        return JsonResponse(completion_response(head, outputs, echoes))
    events, end = completion_stream(head, echoes), StreamChunk(finished=True, reason=reason)
    frames = [events.start(), *(events.feed(index, end) for index in range(len(echoes)))]
    return Response(b"".join([*frames, events.end()]), headers=STREAM_HEADERS)


async def _token_ids(
    service: Service, request: CompletionRequest, prompt: Prompt
) -> tuple[int, ...]:
    if isinstance(prompt, str):
        _, ids = await text_prompt(service, prompt, add_special_tokens=request.add_special_tokens)
        if not ids:
            raise invalid("prompt", "has no tokens; send a text with at least one")
        return ids
    check_known(service, "prompt", prompt)
    return tuple(prompt)
