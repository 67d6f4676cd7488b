"""The server as an ASGI application: paths, errors, and who may ask.

But: it binds no port; `mini_vllm.server.http_server` does.
"""

import logging
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mini_vllm.engine import EngineState
from mini_vllm.server.auth import ApiKey
from mini_vllm.server.endpoints.chat import chat_completions
from mini_vllm.server.endpoints.completions import completions
from mini_vllm.server.endpoints.tokens import detokenize, tokenize
from mini_vllm.server.service import Service
from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.server.wire.json_response import JsonResponse, error_response

_LOG = logging.getLogger(__name__)
_PAGE = Path(__file__).with_name("page")
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


def create_app(service: Service, *, api_key: str | None = None) -> Starlette:
    """Return the application of a service.

    Args:
        service: what it serves. Its thread is started by whoever runs the application.
        api_key: what clients must know, or None.
    """
    middleware = [] if api_key is None else [Middleware(ApiKey, key=api_key)]
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/models", models),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/detokenize", detokenize, methods=["POST"]),
            Route("/health", health),
            Route("/metrics", metrics),
            Route("/", page),
            Mount("/page", StaticFiles(directory=_PAGE)),
        ],
        middleware=middleware,
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _fault,
        },
    )
    # A redirect would go where the Host header says.
    app.router.redirect_slashes = False
    app.state.service = service
    return app


async def models(request: Request) -> JsonResponse:
    """Answer with the one model."""
    service: Service = request.app.state.service
    return JsonResponse(
        {
            "object": "list",
            "data": [
                {
                    "id": service.model_name,
                    "object": "model",
                    "created": service.created,
                    "owned_by": "mini-vllm",
                    "max_model_len": service.engine.max_model_len,
                }
            ],
        }
    )


async def health(request: Request) -> Response:
    """Answer 200 while requests are taken and somebody steps the engine."""
    service: Service = request.app.state.service
    well = service.engine.state is EngineState.RUNNING and service.thread.is_alive
    return Response(status_code=200 if well else 503)


def metrics(request: Request) -> Response:
    """Answer with the numbers, in Prometheus' format."""
    service: Service = request.app.state.service
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")


def page(request: Request) -> FileResponse:
    """Answer with the page for people."""
    return FileResponse(_PAGE / "index.html", headers={"content-security-policy": _CSP})


def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = f"{request.method} {request.scope['path']}: {error.detail}"
    return error_response(ApiError(error.status_code, said), error.headers)


def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


def _fault(request: Request, error: Exception) -> Response:
    _LOG.error("a request broke", exc_info=error)
    return error_response(ApiError(500, "the server failed; its log has the reason"))
