"""`/v1/responses`: a chat in another form, whose answer is a list of items."""

import secrets
from time import time

from starlette.requests import Request as HttpRequest

from mini_vllm.engine import Request
from mini_vllm.server.endpoints.chat import prepare_chat
from mini_vllm.server.endpoints.replies import Reply, reply_whole, stream_reply
from mini_vllm.server.endpoints.request_body import read_body
from mini_vllm.server.endpoints.responses_request import (
    ResponsesRequest,
    chat_names,
    decode_responses_request,
)
from mini_vllm.server.service import Service
from mini_vllm.server.wire.responses_stream import ResponseHead, ResponsesStream, whole_response


async def responses(raw_request: HttpRequest) -> Reply:
    """Continue the conversation in the request.

    Raises:
        ApiError: the request is refused.
    """
    service: Service = raw_request.app.state.service
    body = await read_body(raw_request, service)
    request, chat = decode_responses_request(body, service.limits, service.stored_items)
    with chat_names():
        prompt, engine_request, options = await prepare_chat(service, chat)
    head = _head(service, request, engine_request, len(prompt.token_ids))
    options = {name: options[name] for name in ("parallel_tool_calls", "only_calls", "strip")}
    if request.stream:
        return stream_reply(service, [engine_request], ResponsesStream(head, **options), None)
    return await reply_whole(
        service,
        [engine_request],
        raw_request.receive,
        lambda outputs: whole_response(head, *outputs, **options),
    )


def _head(
    service: Service, request: ResponsesRequest, engine_request: Request, prompt_tokens: int
) -> ResponseHead:
    params, stored = engine_request.params, service.stored_items
    stores = bool(stored.most) and request.store is not False
    return ResponseHead(
        prompt_tokens=prompt_tokens,
        count=lambda text: len(service.tokenizer.encode(text).ids),
        store=stored.add if stores else None,
        fields={
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time()),
            "model": request.model or service.model_name,
            "background": False,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens and params.max_tokens,
            "metadata": request.metadata or {},
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {
                "effort": request.reasoning and request.reasoning.effort,
                "summary": None,
            },
            "service_tier": "default",
            "store": stores,
            "temperature": params.temperature,
            "text": {"format": (request.text and request.text.format) or {"type": "text"}},
            "tool_choice": request.tool_choice or "auto",
            "tools": request.tools or [],
            "top_p": params.top_p,
            "truncation": "disabled",
        },
    )
