"""What an engine measures, in Prometheus' form.

TTFT (time to first token): from the arrival of a request to its first token. ITL (inter-token
latency): between two tokens of an output.
"""

from __future__ import annotations

import time

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

_FIRST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BETWEEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
MODEL = ["model"]


class Metrics:
    """The metrics of all engines of a server. registry: writes them."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()

        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"headway_{name}", help, MODEL, registry=registry)

        def counter(name: str, help: str, labels: list[str] = MODEL) -> Counter:
            return Counter(f"headway_{name}", help, labels, registry=registry)

        self.running = gauge("running", "Outputs that are decoded now.")
        self.waiting = gauge("waiting", "Requests in the queue.")
        self.cache_share = gauge("prefix_cache_share", "Used part of the prefix cache, 0 to 1.")
        self.finished = counter("finished", "Outputs by the reason of their end.", [*MODEL, "why"])
        self.cancelled = counter("cancelled", "Requests whose client went away.")
        self.expired = counter("expired", "Requests that were not done in time.")
        self.refused = counter("refused", "Requests refused since the queue was full.")
        self.prompt_tokens = counter("prompt_tokens", "Tokens of prompts.")
        self.prefix_hits = counter("prefix_tokens_cached", "Tokens of prompts found in the cache.")
        self.tokens = counter("generated_tokens", "Tokens that were generated.")
        self.computed = counter("computed", "Inputs of predictions and embeddings.")
        self.first_token = Histogram(
            *("headway_time_to_first_token_seconds", "Time to the first token.", MODEL),
            buckets=_FIRST,
            registry=registry,
        )
        self.between_tokens = Histogram(
            *("headway_inter_token_seconds", "Time between two tokens of an output.", MODEL),
            buckets=_BETWEEN,
            registry=registry,
        )


class Measurements:
    """The metrics of one engine, whose model has the name `model`."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._metrics, self._model = metrics, model
        self._last: dict[int, float] = {}  # id of an output -> the time of its last token

    def state(self, running: int, waiting: int, cache_share: float) -> None:
        """Set the gauges."""
        self._metrics.running.labels(self._model).set(running)
        self._metrics.waiting.labels(self._model).set(waiting)
        self._metrics.cache_share.labels(self._model).set(cache_share)

    def prompt(self, tokens: int, cached: int) -> None:
        """Count the tokens of a prompt."""
        self._metrics.prompt_tokens.labels(self._model).inc(tokens)
        self._metrics.prefix_hits.labels(self._model).inc(cached)

    def token(self, output: int, arrived: float) -> None:
        """Count one token. output: a name of the output. arrived: when its request arrived."""
        now = time.monotonic()
        last = self._last.get(output)
        if last is None:
            self._metrics.first_token.labels(self._model).observe(now - arrived)
        else:
            self._metrics.between_tokens.labels(self._model).observe(now - last)
        self._last[output] = now
        self._metrics.tokens.labels(self._model).inc()

    def finished(self, output: int, why: str) -> None:
        """Count an output that ended."""
        self._last.pop(output, None)
        self._metrics.finished.labels(self._model, why).inc()

    def count(self, what: str, number: int = 1) -> None:
        """Add to the counter of that name: cancelled, expired, refused or computed."""
        getattr(self._metrics, what).labels(self._model).inc(number)
