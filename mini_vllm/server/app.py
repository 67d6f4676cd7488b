"""The server as an ASGI application: its paths and its errors."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mini_vllm import __version__
from mini_vllm.engine import EngineState
from mini_vllm.server.endpoints.chat import chat_completions
from mini_vllm.server.endpoints.completions import completions
from mini_vllm.server.endpoints.responses import responses
from mini_vllm.server.endpoints.tokens import detokenize, tokenize
from mini_vllm.server.middleware import middleware
from mini_vllm.server.service import Service
from mini_vllm.server.wire.api_errors import ApiError, JsonResponse, error_response

_LOG = logging.getLogger(__name__)
_PAGE = Path(__file__).with_name("page")
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


def create_app(
    service: Service,
    *,
    api_key: str | None = None,
    allowed_origins: Sequence[str] = (),
    open_metrics: bool = False,
) -> Starlette:
    """Return the application of a service.

    Args:
        service: the service. The caller that runs the application starts the service's thread.
        api_key: the key that clients must send, or None.
        allowed_origins: see `middleware`.
        open_metrics: whether `/metrics` needs no key.
    """
    open_paths = {"/", "/health", *(["/metrics"] if open_metrics else [])}
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/responses", responses, methods=["POST"]),
            Route("/v1/models", models),
            Route("/say", what_to_say),
            Route("/v1/models/{name:path}", model),
            Route("/version", version),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/detokenize", detokenize, methods=["POST"]),
            Route("/health", health),
            Route("/metrics", metrics),
            Route("/", page),
            Mount("/page", StaticFiles(directory=_PAGE)),
        ],
        middleware=middleware(api_key, allowed_origins, open_paths=open_paths),
        exception_handlers={
            ApiError: _api_error,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _fault,
        },
    )
    # A redirect would follow the client's Host header.
    app.router.redirect_slashes = False
    app.state.service = service
    return app


async def what_to_say(request: Request) -> JsonResponse:
    """Answer for the page: may a chat `say`, examples by tool-call format, whose code is served."""
    service: Service = request.app.state.service
    examples = dict(service.tool_examples)
    return JsonResponse({"can_say": service.can_say, "examples": examples, "note": service.note})


async def models(request: Request) -> JsonResponse:
    """Answer with the list of models: the served model."""
    service: Service = request.app.state.service
    return JsonResponse({"object": "list", "data": [_model(service)]})


async def model(request: Request) -> JsonResponse:
    """Answer with the model of that name.

    Raises:
        ApiError: 404; the model is not served here.
    """
    service: Service = request.app.state.service
    service.check_model(request.path_params["name"])
    return JsonResponse(_model(service))


def _model(service: Service) -> dict[str, object]:
    return {
        "id": service.model_name,
        "object": "model",
        "created": service.created,
        "owned_by": "mini-vllm",
        "max_model_len": service.engine.max_model_len,
    }


async def version(request: Request) -> JsonResponse:
    """Answer with the version, as vLLM does."""
    return JsonResponse({"version": __version__})


async def health(request: Request) -> Response:
    """Answer 200 while requests are accepted and the engine's thread lives, else 503.

    A remote model's server is also checked; if it has a problem, the answer names the problem.
    """
    service: Service = request.app.state.service
    if service.engine.state is not EngineState.RUNNING or not service.thread.is_alive:
        return Response(status_code=503)
    problem = None if service.model_problem is None else await service.model_problem()
    if problem is not None:
        raise ApiError(503, problem, code="model_unavailable")
    return Response()


def metrics(request: Request) -> Response:
    """Answer with the metrics in Prometheus' text format."""
    service: Service = request.app.state.service
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")


def page(request: Request) -> FileResponse:
    """Answer with the page on which people watch the text path."""
    return FileResponse(_PAGE / "index.html", headers={"content-security-policy": _CSP})


def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.scope['path'][:100]}: {error.detail}"
    if error.status_code == HTTPStatus.NOT_FOUND:
        message += f"; the server has {_paths_like(request)}"
    return error_response(ApiError(error.status_code, message), error.headers)


def _paths_like(request: Request) -> str:
    """Return the paths that the client may have meant, or else all paths."""
    target = request.scope["path"].rstrip("/")
    routes = request.app.routes
    paths = [route.path for route in routes if isinstance(route, Route)]
    paths = [path for path in paths if path != "/" and "{" not in path]
    return ", ".join([path for path in paths if path in target or target in path] or paths)


def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


def _fault(request: Request, error: Exception) -> Response:
    _LOG.error("a request failed", exc_info=error)
    return error_response(ApiError(500, "the server failed; its log has the reason"))
