"""What an engine measures, in Prometheus' form.

TTFT (time to first token): from the arrival of a request to its first token. ITL (inter-token
latency): between two tokens of an output.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

_FIRST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BETWEEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
MODEL = ["model"]


class Durations(Collector):
    """A histogram of seconds for each model. prometheus_client's own takes 20 times as long to
    observe a value, which is done for every token.

    bounds: the upper bounds of the buckets, without infinity.
    """

    def __init__(self, name: str, help: str, bounds: Sequence[float]) -> None:
        self._name, self._help, self.bounds = name, help, bounds
        self.counts: dict[str, list[int]] = {}  # for each model the values in each bucket
        self.totals: dict[str, float] = {}

    def observe(self, model: str, seconds: float) -> None:
        """Add a value; only one thread may do so for a model."""
        if model not in self.counts:
            self.totals[model], self.counts[model] = 0.0, [0] * (len(self.bounds) + 1)
        self.counts[model][bisect_left(self.bounds, seconds)] += 1
        self.totals[model] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._help, labels=MODEL)
        for model, counts in list(self.counts.items()):
            names = [*map(str, self.bounds), "+Inf"]
            buckets = list(zip(names, accumulate(counts), strict=True))
            family.add_metric([model], buckets, self.totals[model])
        yield family


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
        self.first_token = Durations(
            "headway_time_to_first_token_seconds", "Time to the first token.", _FIRST
        )
        self.between_tokens = Durations(
            "headway_inter_token_seconds", "Time between two tokens of an output.", _BETWEEN
        )
        registry.register(self.first_token)
        registry.register(self.between_tokens)


class Measurements:
    """The metrics of one engine, whose model has the name `model`."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._metrics, self._model = metrics, model
        self._last: dict[int, float] = {}  # id of an output -> the time of its last token
        self._tokens = metrics.tokens.labels(model)
        self._running, self._waiting = metrics.running.labels(model), metrics.waiting.labels(model)
        self._cache_share = metrics.cache_share.labels(model)

    def state(self, running: int, waiting: int, cache_share: float) -> None:
        """Set the gauges."""
        self._running.set(running)
        self._waiting.set(waiting)
        self._cache_share.set(cache_share)

    def prompt(self, tokens: int, cached: int) -> None:
        """Count the tokens of a prompt."""
        self._metrics.prompt_tokens.labels(self._model).inc(tokens)
        self._metrics.prefix_hits.labels(self._model).inc(cached)

    def tokens(self, outputs: Iterable[tuple[int, float]]) -> None:
        """Count the tokens of one step: the name of each output that has a new token, and the time
        when its request arrived."""
        now, number = time.monotonic(), 0
        for output, arrived in outputs:
            last = self._last.get(output)
            if last is None:
                self._metrics.first_token.observe(self._model, now - arrived)
            else:
                self._metrics.between_tokens.observe(self._model, now - last)
            self._last[output] = now
            number += 1
        self._tokens.inc(number)

    def finished(self, output: int, why: str) -> None:
        """Count an output that ended."""
        self._last.pop(output, None)
        self._metrics.finished.labels(self._model, why).inc()

    def count(self, what: str, number: int = 1) -> None:
        """Add to the counter of that name: cancelled, expired, refused or computed."""
        getattr(self._metrics, what).labels(self._model).inc(number)
