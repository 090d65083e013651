"""Several copies of the model server behind one address, with Ray Serve.

    pip install 'ray[serve]' 'headway[serve]'
    HEADWAY_RUNS=/models/translator serve run examples.serving.ray_serve:deployment

Every replica is a process with the whole ASGI app of `headway.serving.app`; Ray Serve starts a dead
one again, and sends each request to one of them. HEADWAY_RUNS names run folders, separated by
colons, on every machine. HEADWAY_REPLICAS is the number of replicas (2), HEADWAY_HOSTS the names of
the server in the Host header (127.0.0.1:8000).
"""

from __future__ import annotations

import os

from ray import serve

from headway.serving import ServerSettings, app

RUNS = os.environ["HEADWAY_RUNS"].split(":")
HOSTS = tuple(os.environ.get("HEADWAY_HOSTS", "127.0.0.1:8000,localhost:8000").split(","))


def build() -> object:
    """Return the app of one replica: its models are loaded in its own process."""
    return app(RUNS, settings=ServerSettings(hosts=HOSTS))


@serve.deployment(
    num_replicas=int(os.environ.get("HEADWAY_REPLICAS", "2")),
    max_ongoing_requests=64,
    health_check_period_s=2,
    graceful_shutdown_timeout_s=30,
)
@serve.ingress(build)
class Models:
    """One replica."""


deployment = Models.bind()
