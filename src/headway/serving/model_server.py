"""Models behind HTTP: as an ASGI app for other servers, and as a server of its own."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from headway.bundle import Bundle
from headway.interop import ChatTemplate
from headway.serving.engine import Engine, EngineSettings, Measurements, Metrics
from headway.serving.examples import examples_of
from headway.serving.guard import Guard, checked_origin
from headway.serving.http import ServedModel, ServedModels, model_app
from headway.serving.http.replies import ApiError
from headway.serving.http.server import Address, ModelServer, serve_models
from headway.serving.run import LIMIT
from headway.tasks.model_names import model_names

HERE = Address()
LOCAL = ("127.0.0.1", "localhost", "[::1]")
PUBLIC = ("/", "/health", "/ready")
"""Paths that need no key: the page asks for it, and an orchestrator has none."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """hosts: further names of the server in the Host header, with or without port. origins: other
    origins whose pages may use the server, such as https://app.example. key: that every request
    must send. seconds: after which a request fails. grace: seconds to finish what was begun
    when the server ends. engine: of each model."""

    address: Address = HERE
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    key: str | None = None
    seconds: float = 300.0
    grace: float = 30.0
    engine: EngineSettings = field(default_factory=EngineSettings)


DEFAULTS = ServerSettings()
NO_TEMPLATES: Mapping[str, ChatTemplate | None] = {}
NO_EXAMPLES: Mapping[str, Sequence[str]] = {}


def serve_bundles(
    bundles: Mapping[str, Bundle],
    settings: ServerSettings,
    ready: Callable[[str, ModelServer], None],
    templates: Mapping[str, ChatTemplate | None] = NO_TEMPLATES,
    examples: Mapping[str, Sequence[str]] = NO_EXAMPLES,
) -> bool:
    """Serve models by name until a signal; return whether the server ended well.

    templates: the chat templates of models that have one. examples: inputs that the page offers.
    ready: called with the URL of the server, and with the server. UsageError if the address cannot
    be used.
    """
    models, metrics = _served(bundles, settings, templates, examples)
    gc.collect()
    gc.freeze()  # modules and models stay: to look through them would stop all answers for 0.1 s
    return serve_models(
        lambda port: _guarded(models, metrics, settings, port),
        models,
        settings.address,
        grace=settings.grace,
        ready=ready,
    )


def app(
    runs: Sequence[str | Path], *, settings: ServerSettings = DEFAULTS, **loading: Any
) -> ASGIApp:
    """Return an ASGI app that serves the models of run folders, for any ASGI server.

    settings: the address's port and `hosts` are those of requests, which other hosts' pages may not
    send. loading: arguments of `headway.load`. The engines run as long as the process.
    """
    from headway.tasks.opening import load, template_of

    names = model_names(runs)
    bundles = {name: load(run, **loading) for name, run in zip(names, runs, strict=True)}
    templates = {name: template_of(run) for name, run in zip(names, runs, strict=True)}
    examples = {name: examples_of(run) for name, run in zip(names, runs, strict=True)}
    models, metrics = _served(bundles, settings, templates, examples)
    for model in models:
        model.engine.start()
    return _guarded(models, metrics, settings, settings.address.port)


def _served(
    bundles: Mapping[str, Bundle],
    settings: ServerSettings,
    templates: Mapping[str, ChatTemplate | None],
    examples: Mapping[str, Sequence[str]],
) -> tuple[ServedModels, Metrics]:
    metrics = Metrics()
    served = []
    for name, bundle in bundles.items():
        engine = Engine(bundle, settings.engine, Measurements(metrics, name))
        offered = examples.get(name, ())
        served.append(ServedModel(name, bundle, engine, templates.get(name), offered))
    return ServedModels(served, settings.seconds), metrics


def _guarded(
    models: ServedModels, metrics: Metrics, settings: ServerSettings, port: int
) -> ASGIApp:
    names = [*LOCAL, settings.address.host, *settings.hosts]
    hosts = {*settings.hosts, *(f"{name}:{port}" for name in names)}
    return Guard(
        model_app(models, metrics),
        hosts=hosts,
        limit=LIMIT,
        origins=[checked_origin(origin) for origin in settings.origins],
        key=settings.key,
        public=PUBLIC,
        behind_proxy=bool(settings.hosts),
        error_form=lambda status, message: ApiError(status, message).body,
    )
