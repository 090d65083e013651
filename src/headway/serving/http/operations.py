"""What an operator or a person asks: the page, /inspect, /health, /ready, /metrics, models."""

import dataclasses
import typing
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headway.bundle import Bundle
from headway.data.image_reader import ImageReader
from headway.inspection.document import Document, Frame
from headway.inspection.page import encode, page_text
from headway.inspection.watch import watch
from headway.serving.engine import at_once
from headway.serving.http.exchange import result_of
from headway.serving.http.replies import ApiError, json_reply
from headway.serving.http.served import ServedModel, ServedModels, routes_of
from headway.serving.page import start_page
from headway.tasks.task import AnyPredicts

LONGEST_TEXT = 2000
MOST_TOKENS = 256
"""Of an input of /inspect: the other requests of the model wait for its analyses."""


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


def _described(model: ServedModel) -> dict[str, object]:
    context = getattr(model.bundle.config, "max_length", None)
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "headway",
        "kind": model.bundle.kind,
        "device": str(model.bundle.device),
        "max_model_len": context,
        "routes": routes_of(model),
        "fields": {f"/{verb}": _fields(task, model) for verb, task in model.verbs.items()},
        "languages": _languages(model),
        "image": _image(model.bundle),
        "mask": _mask(model.bundle),
        "examples": list(model.examples),
    }


def _languages(model: ServedModel) -> list[str]:
    """Return the languages of the outputs of a translator or a captioner; empty if unknown."""
    own: dict[str, None] = dict.fromkeys(getattr(model.bundle, "languages", ()))
    for task in model.verbs.values():
        if task.foreign is not None:
            for targets in task.foreign.targets(model.bundle).values():
                own.update(dict.fromkeys(targets))
    return list(own)


def _image(bundle: Bundle) -> dict[str, object] | None:
    """Return what the images of a model look like; None for a model of texts.

    bright: whether most of their pixels are, as in black writing on white paper.
    """
    reader = getattr(bundle, "reader", None)
    images = getattr(reader, "images", reader)
    if not isinstance(images, ImageReader):
        return None
    is_bright = sum(images.mean) / images.channels > 0.5
    return {"channels": images.channels, "padded": images.padded, "bright": is_bright}


def _mask(bundle: Bundle) -> str | None:
    """Return the text of the masked token, for a model that can predict it; None for others."""
    if not getattr(bundle.config, "masked_lm_head", False):
        return None
    tokenizer: Any = getattr(bundle, "tokenizer", None)
    name: str = tokenizer.token_strings([tokenizer.special_tokens.mask])[0]
    return name


def _fields(task: AnyPredicts, model: ServedModel) -> list[dict[str, object]]:
    """Return the fields of an input of a task that the model reads, for a page."""
    kinds = typing.get_type_hints(task.input)
    unread = set() if model.bundle.inputs.second else {"second"}
    return [
        {
            "name": item.name,
            "kind": "file" if kinds[item.name] is Path else "text",
            "required": item.default is dataclasses.MISSING,
            "help": item.metadata.get("help", item.name),
        }
        for item in dataclasses.fields(task.input)
        if item.name not in unread
    ]


async def page(request: Request) -> Response:
    """The page, from which every model can be tried."""
    return Response(start_page(), media_type="text/html")


async def inspect(request: Request) -> Response:
    """The inspection page of a model for a text or two, as one file (`headway inspect`)."""
    models: ServedModels = request.app.state.models
    served = models.named(request.query_params.get("model"))
    bundle = served.bundle
    if bundle.inputs.modality != "text":  # it would be the name of a file of the server
        message = f"{served.name} is a {bundle.kind}, whose inputs are no texts"
        raise ApiError(400, f"{message}; use `headway inspect`", param="model")
    text = request.query_params.get("text", "")
    second = request.query_params.get("second") or None
    if not text.strip() or len(text) + len(second or "") > LONGEST_TEXT:
        raise ApiError(400, f"text must have 1 to {LONGEST_TEXT:,} characters", param="text")

    def frames(texts: list[str]) -> list[Frame]:
        """Return a frame for each text, all of which are equal: their requests are one group."""
        frame = watch(bundle, text, second, vectors=True, label=served.name, max_tokens=MOST_TOKENS)
        return [frame] * len(texts)

    group = ("inspect", text, second)
    (frame,) = await result_of(
        request, served, [text], at_once(frames), group=group, cost=len(text)
    )
    title = f"{served.name}: {text[:60]}"
    page = await run_in_threadpool(_inspection_page, title, frame)
    return Response(page, media_type="text/html")


def _inspection_page(title: str, frame: Frame) -> str:
    """Return the page of a frame. It takes seconds, and so is made outside of the engine."""
    return page_text(encode(Document(title=title, frames=[frame])))
