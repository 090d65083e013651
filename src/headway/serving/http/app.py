"""The ASGI app of the model server: which route answers by which function."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.serving.engine import Metrics
from headway.serving.http import completions, embeddings, operations, predictions, tokens
from headway.serving.http.exchange import Disconnected
from headway.serving.http.replies import ApiError, as_api_error
from headway.serving.http.served import ServedModels
from headway.tasks.registry import verbs

GONE = 499
"""The status in the log for a client that went away; it is never received."""

Handler = Callable[[Request], Awaitable[Response]]
_log = logging.getLogger("headway.serving")


def model_app(models: ServedModels, metrics: Metrics) -> Starlette:
    """Return the app that answers for these models, whose engines are running."""
    get: dict[str, Handler] = {
        "/health": operations.health,
        "/ready": operations.ready,
        "/metrics": operations.metrics,
        "/v1/models": operations.list_models,
        "/v1/models/{name:path}": operations.show_model,
        "/tokenizer_info": tokens.tokenizer_info,
    }
    post: dict[str, Handler] = {
        "/v1/completions": completions.completions,
        "/v1/embeddings": embeddings.embeddings,
        "/embed": embeddings.embed,
        "/tokenize": tokens.tokenize,
        "/detokenize": tokens.detokenize,
        **{f"/{verb}": predictions.predict for verb in verbs()},
    }
    routes = [Route(path, handler, methods=["GET"]) for path, handler in get.items()]
    routes += [Route(path, handler, methods=["POST"]) for path, handler in post.items()]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _http_error,
            Disconnected: _gone,
            ApiError: _error,
            Exception: _error,
        },
    )
    app.state.models, app.state.metrics = models, metrics
    return app


async def _error(request: Request, error: Exception) -> Response:
    known = as_api_error(error)
    if known.status >= 500 and known.code == "internal":
        _log.error("internal error at %s", request.url.path, exc_info=error)
    return known.reply()


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=GONE)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reply = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response = reply.reply()
    response.headers.update(error.headers or {})
    return response
