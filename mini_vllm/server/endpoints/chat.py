"""`/v1/chat/completions`."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import time
from typing import Any

from starlette.requests import Request as HttpRequest

from mini_vllm.engine import Request, SamplingParams
from mini_vllm.models.sayer import say_id
from mini_vllm.server.endpoints.chat_request import (
    ChatCompletionRequest,
    NamedToolChoice,
    decode_chat_request,
)
from mini_vllm.server.endpoints.prompts import Prompt, chat_prompt, check_logit_bias
from mini_vllm.server.endpoints.replies import Reply, reply_whole, stream_reply
from mini_vllm.server.endpoints.request_body import read_body
from mini_vllm.server.endpoints.sampling import to_sampling_params
from mini_vllm.server.endpoints.structured_outputs import constrain
from mini_vllm.server.service import Service
from mini_vllm.server.wire.api_errors import invalid
from mini_vllm.server.wire.chat_stream import chat_response
from mini_vllm.server.wire.sse import StreamHead
from mini_vllm.text.formats import is_format
from mini_vllm.text.reasoning import prompt_in_reasoning

Tools = Sequence[Mapping[str, Any]]
# The most characters of `say`: other requests wait while the model cuts them into tokens.
_MOST_SAID = 20_000


async def chat_completions(raw_request: HttpRequest) -> Reply:
    """Continue a conversation.

    If `tool_choice` is none, the model sees no tools and all its text is content. If it names a
    function, the model sees only that function and must call it once. `required` demands a call.

    Raises:
        ApiError: the request is refused.
    """
    service: Service = raw_request.app.state.service
    request = decode_chat_request(await read_body(raw_request, service), service.limits)
    prompt, engine_request, options = await prepare_chat(service, request)
    head = StreamHead(
        id=f"chatcmpl-{secrets.token_hex(12)}",
        created=int(time()),
        model=request.model or service.model_name,
        choices=engine_request.params.n,
        prompt_tokens=len(prompt.token_ids),
        include_usage=request.include_usage,
        continuous_usage=request.continuous_usage,
        prompt_token_ids=prompt.token_ids if request.return_token_ids else None,
        tokens_as_ids=bool(request.return_tokens_as_token_ids),
        naive=service.naive if request.return_held else None,
    )
    if request.stream:
        events = service.wire.chat_stream(head, engine_request, **options)
        return stream_reply(service, [engine_request], events, request.return_held)
    return await reply_whole(
        service,
        [engine_request],
        raw_request.receive,
        lambda outputs: chat_response(head, outputs, tells_stop=service.wire.tells_stop, **options),
    )


async def prepare_chat(
    service: Service, request: ChatCompletionRequest
) -> tuple[Prompt, Request, dict[str, Any]]:
    """Return a chat's prompt, its request to the engine, and options of `MessageFold`.

    Raises:
        ApiError: the request is refused.
    """
    service.check_model(request.model)
    tools = _tools_to_show(request)
    prompt = await chat_prompt(
        service,
        request.messages,
        tools=tools,
        add_generation_prompt=request.add_generation_prompt,
        continue_final_message=bool(request.continue_final_message),
        add_special_tokens=request.add_special_tokens,
        variables=request.template_kwargs,
    )
    room = service.room_after(prompt.token_ids, "messages", request.max_tokens_param)
    params = to_sampling_params(
        request, service.limits, min(room, service.default_max_tokens), request.logprobs_param
    )
    check_logit_bias(service, params)
    named = isinstance(request.tool_choice, NamedToolChoice)
    demands_call = named or request.tool_choice == "required"
    parallel = request.parallel_tool_calls is not False
    engine_request = _engine_request(service, request, prompt, params, tools)
    engine_request = await constrain(
        service,
        engine_request if parallel else replace(engine_request, parallel_tool_calls=False),
        request,
        demands_call=demands_call,
        parallel=parallel and not named,
        reasons=bool(service.reasoning_format)
        and (service.model_reasons or request.say is not None),
    )
    options = {
        "named_function": named,
        "parallel_tool_calls": parallel,
        # A remote server may not know the grammar that it is sent.
        "only_calls": demands_call and not service.engine.forwards_grammars,
        "strip": service.strip and tools is not None,
    }
    return prompt, engine_request, options


def _tools_to_show(request: ChatCompletionRequest) -> Tools | None:
    choice = request.tool_choice
    if choice == "none" or not request.tools:
        return None
    if isinstance(choice, NamedToolChoice):
        name = choice.function.name
        return [tool for tool in request.tools if tool["function"]["name"] == name]
    return request.tools


def _engine_request(
    service: Service,
    request: ChatCompletionRequest,
    prompt: Prompt,
    params: SamplingParams,
    tools: Tools | None,
) -> Request:
    if request.say is not None or request.tool_format is not None:
        return _say_request(service, request, prompt, params, tools)
    if service.reads_markers(calls=bool(tools)) and request.skip_special_tokens is None:
        # The markers of many formats are special tokens; a parser does not see skipped tokens.
        params = replace(params, skip_special_tokens=False)
    thinking = None
    if service.reasoning_format:
        inside = prompt_in_reasoning(service.reasoning_format, prompt.text)
        thinking = service.model_reasons and inside
    return Request(
        prompt.token_ids, params, tools=None if tools is None else tuple(tools), thinking=thinking
    )


def _say_request(
    service: Service,
    request: ChatCompletionRequest,
    prompt: Prompt,
    params: SamplingParams,
    tools: Tools | None,
) -> Request:
    if request.say is None:
        raise invalid("tool_format", "needs say: it is the format in which to read that text")
    if not service.can_say:
        raise invalid("say", "is not available here; serve the embedded model or a --script")
    if len(request.say) > _MOST_SAID:
        raise invalid(
            "say", f"has {len(request.say):,} characters; at most {_MOST_SAID:,} are allowed"
        )
    format = request.tool_format
    if format is not None and not (service.tool_examples and is_format(format)):
        known = ", ".join(service.tool_examples) or "its own format only"
        raise invalid("tool_format", f"is {format[:100]!r}; this server reads {known}")
    if format or service.reads_markers(calls=bool(tools)):
        params = replace(params, skip_special_tokens=False)
    return Request(
        prompt.token_ids,
        params,
        request_id=say_id(request.say),
        # A named format is read even if no tools are offered.
        tools=tuple(tools or ()) if tools or format else None,
        tool_format=format,
        thinking=False,
    )
