"""`/tokenize` and `/detokenize`, as vLLM has them."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from mini_vllm.server.endpoints.completion_request import (
    DetokenizeResponse,
    TokenizeResponse,
    decode_detokenize_request,
    decode_tokenize_request,
)
from mini_vllm.server.endpoints.prompts import chat_prompt, check_known, text_prompt
from mini_vllm.server.service import Service, read_body
from mini_vllm.server.wire.api_errors import invalid
from mini_vllm.server.wire.json_response import JsonResponse
from mini_vllm.tokenizer import TokenizerError


async def tokenize(request: Request) -> JsonResponse:
    """Answer with the ids of a text, or of a conversation as the model would get it."""
    service: Service = request.app.state.service
    asked = decode_tokenize_request(await read_body(request, service), service.limits)
    service.check_model(asked.model)
    special = asked.add_special_tokens
    if asked.messages is not None:
        prompt = await chat_prompt(
            service,
            asked.messages,
            tools=asked.tools,
            add_generation_prompt=asked.add_generation_prompt,
            add_special_tokens=bool(special),
            variables=asked.chat_template_kwargs,
        )
    else:
        prompt = await text_prompt(
            service, asked.prompt or "", add_special_tokens=special is not False
        )
    ids = prompt.token_ids
    return JsonResponse(
        TokenizeResponse(
            count=len(ids),
            max_model_len=service.engine.max_model_len,
            tokens=list(ids),
            token_strs=[service.tokenizer.id_to_token(one) or "" for one in ids]
            if asked.return_token_strs
            else None,
        )
    )


async def detokenize(request: Request) -> JsonResponse:
    """Answer with the text of ids."""
    service: Service = request.app.state.service
    asked = decode_detokenize_request(await read_body(request, service), service.limits)
    service.check_model(asked.model)
    check_known(service, "tokens", asked.tokens)
    try:
        text = await run_in_threadpool(service.tokenizer.decode, asked.tokens)
    except (TokenizerError, OverflowError) as error:
        raise invalid("tokens", f"cannot be decoded: {error}") from error
    return JsonResponse(DetokenizeResponse(prompt=text))
