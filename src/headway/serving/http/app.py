"""The ASGI app of the model server: which route answers by which function."""

import time
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from headway.serving.engine import Metrics
from headway.serving.guard import TooLarge
from headway.serving.http import (
    chat,
    completions,
    embeddings,
    operations,
    predictions,
    responses,
    scoring,
    tokens,
    transcriptions,
)
from headway.serving.http.chat_templates import Templates
from headway.serving.http.exchange import Disconnected, ignored_header
from headway.serving.http.multipart import MULTIPART
from headway.serving.http.openapi import Endpoint, describe
from headway.serving.http.replies import ApiError, as_api_error, json_reply
from headway.serving.http.request_log import log_error, log_request
from headway.serving.http.served import ServedModels
from headway.tasks.registry import verbs

GONE = 499
"""The status in the log for a client that went away; it is never received."""

ENDPOINTS = (
    Endpoint("GET", "/health", operations.health),
    Endpoint("GET", "/ready", operations.ready),
    Endpoint("GET", "/metrics", operations.metrics, media="text/plain"),
    Endpoint("GET", "/", operations.page, media="text/html"),
    Endpoint("GET", "/inspect", operations.inspect, media="text/html"),
    Endpoint("GET", "/v1/models", operations.list_models),
    Endpoint("GET", "/v1/models/{name:path}", operations.show_model),
    Endpoint("GET", "/languages", predictions.languages),
    Endpoint("POST", "/detect", predictions.detect, predictions.DetectRequest),
    Endpoint("GET", "/tokenizer_info", tokens.tokenizer_info),
    Endpoint("POST", "/tokenize", tokens.tokenize, tokens.TokenizeRequest),
    Endpoint("POST", "/detokenize", tokens.detokenize, tokens.DetokenizeRequest),
    Endpoint(
        "POST",
        "/v1/completions",
        completions.completions,
        completions.CompletionRequest,
        streams=True,
    ),
    Endpoint("POST", "/v1/chat/completions", chat.chat_completions, chat.ChatRequest, streams=True),
    Endpoint("POST", "/v1/responses", responses.create, responses.ResponsesRequest, streams=True),
    Endpoint("POST", "/v1/embeddings", embeddings.embeddings, embeddings.EmbeddingRequest),
    Endpoint("POST", "/embed", embeddings.embed, embeddings.EmbedRequest),
    Endpoint("POST", "/v1/rerank", scoring.rerank, scoring.RerankRequest),
    Endpoint("POST", "/v2/rerank", scoring.rerank, scoring.RerankRequest),
    Endpoint("POST", "/rerank", scoring.rerank, scoring.RerankRequest),
    Endpoint("POST", "/v1/score", scoring.score, scoring.ScoreRequest),
    Endpoint(
        "POST",
        "/v1/audio/transcriptions",
        transcriptions.transcribe,
        transcriptions.TranscriptionRequest,
        takes=MULTIPART,
    ),
    Endpoint(
        "POST",
        "/v1/audio/translations",
        transcriptions.translate,
        transcriptions.TranscriptionRequest,
        takes=MULTIPART,
    ),
)
"""The routes of every server; each verb of the served models has one more."""

Handler = Callable[[Request], Awaitable[Response]]


def model_app(models: ServedModels, metrics: Metrics) -> Starlette:
    """Return the app that answers for these models, whose engines are running."""
    endpoints = [*ENDPOINTS]
    served_verbs = {verb for model in models for verb in model.verbs}
    for verb in verbs():
        if verb in served_verbs:
            body = predictions.PredictionRequest
            endpoints.append(Endpoint("POST", f"/{verb}", predictions.predict, body))

    async def openapi(request: Request) -> Response:
        """The description of all routes."""
        return json_reply(describe([*endpoints, own], models))

    own = Endpoint("GET", "/openapi.json", openapi)
    routes = [
        Route(endpoint.path, _answering(endpoint.handler), methods=[endpoint.method])
        for endpoint in (*endpoints, own)
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
    app.state.models, app.state.metrics, app.state.templates = models, metrics, Templates()
    return app


def _answering(handler: Handler) -> Handler:
    """Return a handler whose errors are replies."""

    async def answer(request: Request) -> Response:
        begun = time.monotonic()
        response = await reply_to(request)
        response.headers.update(ignored_header(request))
        log_request(request, response.status_code, begun)
        return response

    async def reply_to(request: Request) -> Response:
        try:
            return await handler(request)
        except (Disconnected, ClientDisconnect):  # while it waits, or in its upload
            return Response(status_code=GONE)
        except TooLarge:
            raise  # the guard replies
        except Exception as error:
            known = as_api_error(error)
            if known.code == "internal":
                log_error(request, error)
            return known.reply()

    return answer


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reply = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response = reply.reply()
    response.headers.update(error.headers or {})
    return response
