"""`/v1/responses`: a chat in other words, whose answer is a list of items. Nothing is stored."""

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


async def responses(http: HttpRequest) -> Reply:
    """Continue a conversation that the request brings with it.

    Raises:
        ApiError: the request is refused.
    """
    service: Service = http.app.state.service
    asked, chat = decode_responses_request(await read_body(http, service), service.limits)
    with chat_names():
        prompt, request, options = await prepare_chat(service, chat)
    head = _head(service, asked, request, len(prompt.token_ids))
    options = {name: options[name] for name in ("parallel_tool_calls", "strip")}
    if asked.stream:
        return stream_reply(service, [request], ResponsesStream(head, **options), None)
    return await reply_whole(
        service, [request], http.receive, lambda outputs: whole_response(head, *outputs, **options)
    )


def _head(
    service: Service, asked: ResponsesRequest, request: Request, prompt_tokens: int
) -> ResponseHead:
    params = request.params
    return ResponseHead(
        prompt_tokens=prompt_tokens,
        count=lambda text: len(service.tokenizer.encode(text).ids),
        fields={
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time()),
            "model": asked.model or service.model_name,
            "background": False,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens and params.max_tokens,
            "metadata": asked.metadata or {},
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": asked.reasoning and asked.reasoning.effort, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": params.temperature,
            "text": {"format": (asked.text and asked.text.format) or {"type": "text"}},
            "tool_choice": asked.tool_choice or "auto",
            "tools": asked.tools or [],
            "top_p": params.top_p,
            "truncation": "disabled",
        },
    )
