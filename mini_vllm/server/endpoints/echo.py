"""`echo` of a completion: the prompt before the answer, and how likely the model finds it."""

from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool

from mini_vllm.engine import LogprobEntry, RemoteModelError, TokenLogprobs
from mini_vllm.engine.intake import pieces_of
from mini_vllm.server.service import PromptLogprobs, Service
from mini_vllm.server.wire.api_errors import ApiError, invalid
from mini_vllm.server.wire.completion_stream import Echo
from mini_vllm.tokenizer.protocols import Tokenizer


async def echo_of(
    service: Service, prompt: str | Sequence[int], token_ids: Sequence[int], logprobs: int | None
) -> Echo:
    """Return a prompt in the form in which the answer repeats it.

    Args:
        service: has the model.
        prompt: as it was sent.
        token_ids: its ids.
        logprobs: how many likeliest tokens to report for each id, or None for no logprobs.

    Raises:
        ApiError: 400, the model has no logprobs of a prompt; 502, a remote model failed.
    """
    text = prompt
    if not isinstance(text, str):
        text = await run_in_threadpool(service.tokenizer.decode, token_ids)
    if logprobs is None:
        return Echo(text)
    if service.prompt_logprobs is None:
        raise invalid(
            "echo",
            "with logprobs needs a model that has logprobs of its prompt; leave logprobs out",
            code="unsupported_parameter",
        )
    try:
        return Echo(
            text,
            await run_in_threadpool(_steps, service, service.prompt_logprobs, token_ids, logprobs),
            special_ids_of(service.tokenizer),
        )
    except RemoteModelError as error:
        raise ApiError(502, str(error), code="model_unavailable") from error


def special_ids_of(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the ids that `skip_special_tokens` leaves out."""
    if tokenizer.pieces is not None:
        return tokenizer.pieces.special
    ids = map(tokenizer.token_to_id, tokenizer.special_tokens.all())
    return frozenset(token_id for token_id in ids if token_id is not None)


def _steps(
    service: Service, score: PromptLogprobs, token_ids: Sequence[int], most: int
) -> list[TokenLogprobs | LogprobEntry]:
    piece_of = pieces_of(service.tokenizer)
    return [
        LogprobEntry(token_id, 0.0, piece_of(token_id))
        if likely is None
        else TokenLogprobs.of(token_id, likely, most, piece_of)
        for token_id, likely in zip(token_ids, score(token_ids, most), strict=True)
    ]
