"""What the endpoints share: the engine, what it speaks, and how much a request may ask for."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import time

from starlette.requests import Request as HttpRequest

from mini_vllm.engine import Engine, EngineThread
from mini_vllm.server.endpoints.limits import DEFAULT_LIMITS, Limits
from mini_vllm.server.prometheus_metrics import PrometheusMetrics
from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.tokenizer import ChatTemplate
from mini_vllm.tokenizer.protocols import Tokenizer


@dataclass(slots=True)
class Service:
    """One model, served.

    Attributes:
        engine: makes the tokens.
        thread: steps it.
        tokenizer: of the model.
        chat_template: of the model.
        model_name: as clients ask for it.
        metrics: what `/metrics` shows.
        limits: how much one request may ask for.
        default_max_tokens: how many tokens a chat may have that does not say.
        tool_format: whether, and how, the model calls tools.
        reasoning_format: whether, and how, the model marks its reasoning.
        body_seconds: how long the body of a request may take to arrive.
        ping_seconds: of a stream's silence, after which a comment is sent.
        created: when it was started, in seconds since 1970.
    """

    engine: Engine
    thread: EngineThread
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    model_name: str
    metrics: PrometheusMetrics
    limits: Limits = DEFAULT_LIMITS
    default_max_tokens: int = 512
    tool_format: str | None = None
    reasoning_format: str | None = None
    body_seconds: float = 30.0
    ping_seconds: float = 15.0
    created: int = field(default_factory=lambda: int(time()))

    def check_model(self, name: str | None) -> None:
        """Demand that a request asks for the model that is here, or for none.

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

    def naive(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids, each decoded for itself. Wrong: see the course."""
        known = [one for one in token_ids if 0 <= one < self.tokenizer.vocab_size]
        return "".join(self.tokenizer.decode([token_id]) for token_id in known)

    def room_after(self, prompt: Sequence[int], param: str, wanted: tuple[str, int | None]) -> int:
        """Return how many tokens the model has left for its answer.

        Args:
            prompt: ids.
            param: the field that they come from.
            wanted: the field that says how many tokens the answer may have, and what it says.

        Raises:
            ApiError: 400; there is none, or fewer than are wanted.
        """
        room = self.engine.max_model_len - len(prompt)
        if room < 1:
            raise ApiError(
                400,
                f"{param}: has {len(prompt)} tokens; prompt and answer together may have "
                f"{self.engine.max_model_len}",
                param=param,
                code="context_length_exceeded",
            )
        name, tokens = wanted
        if tokens is not None and tokens > room:
            raise ApiError(
                400,
                f"{name}: is {tokens}; the prompt has {len(prompt)} tokens, and together at most "
                f"{self.engine.max_model_len} fit",
                param=name,
                code="context_length_exceeded",
            )
        return room


async def read_body(request: HttpRequest, service: Service) -> bytes:
    """Return the body of a request.

    Raises:
        ApiError: 415 if it does not say that it is JSON, 413 if it is too long, 408 if it does not
            arrive in time.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"content-type: is {kind!r:.100}; it must be application/json")
    body, most = bytearray(), service.limits.max_body_bytes
    try:
        async with asyncio.timeout(service.body_seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise ApiError(413, f"the body has over {most} bytes; that is the limit")
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive in {service.body_seconds:g} s") from None
    return bytes(body)
