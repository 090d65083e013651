"""What an operator asks: GET /health, /ready, /metrics, and which models there are."""

from __future__ import annotations

from typing import Any

from prometheus_client import generate_latest
from starlette.requests import Request
from starlette.responses import Response

from headway.serving.http.replies import json_reply
from headway.serving.http.served import ServedModel, ServedModels, routes_of


async def health(request: Request) -> Response:
    """200 while every engine lives and moves on; 503 if one is dead or stuck."""
    models: ServedModels = request.app.state.models
    sick = [model.name for model in models if not model.engine.healthy]
    return json_reply({"status": "sick" if sick else "ok", "sick": sick}, 503 if sick else 200)


async def ready(request: Request) -> Response:
    """200 while new requests are taken; 503 while the server shuts down."""
    models: ServedModels = request.app.state.models
    is_ready = all(m.engine.healthy and not m.engine.waiting.draining for m in models)
    return json_reply({"status": "ready" if is_ready else "not ready"}, 200 if is_ready else 503)


async def metrics(request: Request) -> Response:
    """The measurements, in the text form of Prometheus."""
    text = generate_latest(request.app.state.metrics.registry)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def list_models(request: Request) -> Response:
    """All models, in OpenAI's form."""
    models: ServedModels = request.app.state.models
    return json_reply({"object": "list", "data": [_described(model) for model in models]})


async def show_model(request: Request) -> Response:
    """One model, in OpenAI's form."""
    models: ServedModels = request.app.state.models
    return json_reply(_described(models.named(request.path_params["name"])))


def _described(model: ServedModel) -> dict[str, Any]:
    context = getattr(model.bundle.config, "max_length", None)
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "headway",
        "kind": model.bundle.kind,
        "max_model_len": context,
        "routes": routes_of(model),
    }
