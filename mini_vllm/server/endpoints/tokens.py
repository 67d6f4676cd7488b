"""`/tokenize` and `/detokenize`, as in vLLM."""

from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from mini_vllm.server.endpoints.chat_request import (
    ChatCompletionMessage,
    Tools,
    check_end,
    check_messages,
    check_template_kwargs,
    check_tools,
)
from mini_vllm.server.endpoints.prompts import chat_prompt, check_known, text_prompt
from mini_vllm.server.endpoints.request_body import check_at_most, decode_body, read_body
from mini_vllm.server.service import Limits, Service
from mini_vllm.server.wire.api_errors import JsonResponse, invalid
from mini_vllm.tokenizer import TokenizerError


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """A text or a conversation to encode.

    Attributes:
        add_special_tokens: by default, as in vLLM, true for a text and false for a conversation.
        continue_final_message: as in a chat; only without `add_generation_prompt`.
        chat_template: not implemented, and refused, because it would change the ids.
    """

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatCompletionMessage] | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool | None = None
    tools: Tools | None = None
    chat_template: Any = None
    chat_template_kwargs: dict[str, Any] | None = None


class TokenizeResponse(msgspec.Struct):
    """The ids of a text, their number, and the number that fits the model's context."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """Ids to decode."""

    model: str | None = None
    tokens: list[int]


class DetokenizeResponse(msgspec.Struct):
    """The text of ids."""

    prompt: str


def decode_tokenize_request(body: bytes, limits: Limits) -> TokenizeRequest:
    """Return the request of a body.

    Raises:
        ApiError: 400; it names the field.
    """
    request = decode_body(body, TokenizeRequest)
    if (request.prompt is None) == (request.messages is None):
        raise invalid("prompt", "send either prompt or messages")
    check_at_most("prompt", len(request.prompt or ""), limits.max_prompt_chars, "characters")
    if request.chat_template is not None:
        problem = "is not implemented; leave it out"
        raise invalid("chat_template", problem, code="unsupported_parameter")
    if request.messages is not None:
        check_messages(request.messages, limits)
        check_end(request.continue_final_message, request.add_generation_prompt)
    request.tools = request.tools or None
    check_tools(request.tools, limits)
    check_template_kwargs(request.chat_template_kwargs, limits)
    return request


def decode_detokenize_request(body: bytes, limits: Limits) -> DetokenizeRequest:
    """Return the request of a body.

    Raises:
        ApiError: 400; it names the field.
    """
    request = decode_body(body, DetokenizeRequest)
    check_at_most("tokens", len(request.tokens), limits.max_prompt_chars, "ids")
    if request.tokens and min(request.tokens) < 0:
        raise invalid("tokens", f"has the id {str(min(request.tokens))[:60]}; ids begin at 0")
    return request


async def tokenize(raw_request: Request) -> JsonResponse:
    """Answer with the ids of a text, or of a conversation as the model would read it."""
    service: Service = raw_request.app.state.service
    request = decode_tokenize_request(await read_body(raw_request, service), service.limits)
    service.check_model(request.model)
    special = request.add_special_tokens
    if request.messages is not None:
        prompt = await chat_prompt(
            service,
            request.messages,
            tools=request.tools,
            add_generation_prompt=request.add_generation_prompt,
            continue_final_message=bool(request.continue_final_message),
            add_special_tokens=bool(special),
            variables=request.chat_template_kwargs,
        )
    else:
        prompt = await text_prompt(
            service, request.prompt or "", add_special_tokens=special is not False
        )
    ids = prompt.token_ids
    return JsonResponse(
        TokenizeResponse(
            count=len(ids),
            max_model_len=service.engine.max_model_len,
            tokens=list(ids),
            token_strs=[service.tokenizer.id_to_token(token_id) or "" for token_id in ids]
            if request.return_token_strs
            else None,
        )
    )


async def detokenize(raw_request: Request) -> JsonResponse:
    """Answer with the text of ids."""
    service: Service = raw_request.app.state.service
    request = decode_detokenize_request(await read_body(raw_request, service), service.limits)
    service.check_model(request.model)
    check_known(service, "tokens", request.tokens)
    try:
        text = await run_in_threadpool(service.tokenizer.decode, request.tokens)
    except (TokenizerError, OverflowError) as error:
        raise invalid("tokens", f"cannot be decoded: {error}") from error
    return JsonResponse(DetokenizeResponse(prompt=text))
