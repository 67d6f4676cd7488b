"""`/v1/completions`."""

import secrets
from time import time

from starlette.requests import Request as HttpRequest

from mini_vllm.engine import Request
from mini_vllm.server.endpoints.completion_request import (
    CompletionRequest,
    decode_completion_request,
)
from mini_vllm.server.endpoints.prompts import check_known, text_prompt
from mini_vllm.server.endpoints.replies import Reply, reply_whole, stream_reply
from mini_vllm.server.endpoints.sampling import to_sampling_params
from mini_vllm.server.service import Service, read_body
from mini_vllm.server.wire.api_errors import invalid
from mini_vllm.server.wire.completion_stream import CompletionStream, completion_response
from mini_vllm.server.wire.sse_stream import StreamHead

_DEFAULT_MAX_TOKENS = 16


async def completions(http: HttpRequest) -> Reply:
    """Continue texts. The choices of all prompts are counted through.

    Raises:
        ApiError: the request is refused.
    """
    service: Service = http.app.state.service
    asked = decode_completion_request(await read_body(http, service), service.limits)
    service.check_model(asked.model)
    prompts = [await _token_ids(service, asked, prompt) for prompt in asked.prompts]
    room = min(service.room_after(prompt, "prompt", asked.wanted_tokens) for prompt in prompts)
    params = to_sampling_params(asked, service.limits, min(room, _DEFAULT_MAX_TOKENS))
    if asked.return_token_ids and len(prompts) > 1:
        raise invalid("return_token_ids", "is for a single prompt; send one, or leave it out")
    head = StreamHead(
        id=f"cmpl-{secrets.token_hex(12)}",
        created=int(time()),
        model=asked.model or service.model_name,
        choices=len(prompts) * params.n,
        prompt_tokens=sum(map(len, prompts)),
        include_usage=asked.include_usage,
        prompt_token_ids=prompts[0] if asked.return_token_ids else None,
        naive=service.naive if asked.return_held else None,
    )
    # A completion is all the text there is; what it means is the client's business.
    requests = [Request(prompt, params, split_reasoning=False) for prompt in prompts]
    if asked.stream:
        return stream_reply(service, requests, CompletionStream(head), asked.return_held)
    return await reply_whole(
        service, requests, http.receive, lambda outputs: completion_response(head, outputs)
    )


async def _token_ids(
    service: Service, asked: CompletionRequest, prompt: str | list[int]
) -> tuple[int, ...]:
    if isinstance(prompt, str):
        made = await text_prompt(service, prompt, add_special_tokens=asked.add_special_tokens)
        return made.token_ids
    check_known(service, "prompt", prompt)
    return tuple(prompt)
