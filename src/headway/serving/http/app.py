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
from headway.serving.guard import TooLarge
from headway.serving.http import chat, completions, embeddings, operations, predictions, tokens
from headway.serving.http.chat_templates import Templates
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
        "/v1/chat/completions": chat.chat_completions,
        "/v1/embeddings": embeddings.embeddings,
        "/embed": embeddings.embed,
        "/tokenize": tokens.tokenize,
        "/detokenize": tokens.detokenize,
        **{f"/{verb}": predictions.predict for verb in verbs()},
    }
    routes = [Route(path, _answering(handler), methods=["GET"]) for path, handler in get.items()]
    routes += [Route(path, _answering(handler), methods=["POST"]) for path, handler in post.items()]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
    app.state.models, app.state.metrics, app.state.templates = models, metrics, Templates()
    return app


def _answering(handler: Handler) -> Handler:
    """Return a handler whose errors are replies."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Disconnected:
            return Response(status_code=GONE)
        except TooLarge:
            raise  # the guard replies
        except Exception as error:
            known = as_api_error(error)
            if known.code == "internal":
                _log.error("internal error at %s", request.url.path, exc_info=error)
            return known.reply()

    return answer


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reply = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response = reply.reply()
    response.headers.update(error.headers or {})
    return response
