"""Exercise: attention with a cache of keys and values."""

import torch

from headway.attention import (
    KeyValueCache,
    KeyValues,
    LayerCache,
    Mask,
    MultiHeadAttention,
    ScaledDot,
    Step,
)
from headway.base.shapes import Tensor
from headway.blocks import DecoderBlock
from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import normal
from headway.models import Translator

Cache = tuple[Tensor, Tensor] | None
Cached = tuple[Tensor, tuple[Tensor, Tensor]]
"""The result, and the new cache."""


class PairLayer(LayerCache):
    """The cache of a layer that the learner's function returned last."""

    pair: Cache = None


class PairCache(KeyValueCache):
    """A `PairLayer` for each layer."""

    def __init__(self, num_rows: int, num_layers: int) -> None:
        super().__init__(num_rows, 0)
        self._layers = [PairLayer() for _ in range(num_layers)]


class LearnerCached(MultiHeadAttention):
    """Self-attention of a decoder that uses the learner's cache while decoding."""

    cached: Function

    def forward(
        self,
        x: Tensor,
        source: Tensor | KeyValues,
        mask: Mask,
        step: Step | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        if not isinstance(cache, PairLayer) or isinstance(source, KeyValues):
            return super().forward(x, source, mask, step, cache)
        k, v = self.keys_values(source, step)
        context, cache.pair = self.cached(self.split_queries(self.query(x)), k, v, cache.pair)
        attended: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return attended


def _transform(model: Translator, learner: Function) -> Translator:
    model.decoder.cache_type = PairCache
    for block in model.decoder.modules():
        if isinstance(block, DecoderBlock):
            block.attention.__class__ = LearnerCached
            setattr(block.attention, "cached", learner)  # noqa: B010, its class was another
    return model


def _reference(q: Tensor, k: Tensor, v: Tensor, cache: Cache) -> Cached:
    if cache is not None:
        k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
    return ScaledDot()(q, k, v, Mask()), (k, v)


def _random(seed: int) -> tuple[object, ...]:
    q, k, v = (normal(seed + 10 * i, 2, 3, 1, 4) for i in range(3))
    past = 2 + seed
    return q, k, v, (normal(seed + 40, 2, 3, past, 4), normal(seed + 50, 2, 3, past, 4))


ONE = torch.ones(1, 1, 1, 1)

EXERCISE = Exercise(
    name="kv-cache",
    equation="""
keys = [cached keys, k],  values = [cached values, v]
context = softmax(q keys^T / sqrt(K)) values
The new token attends to all tokens so far and to itself; no mask is needed.""",
    shapes=(
        "q, k, v: B H 1 K    of the new token\n"
        "cache: None at the first token, otherwise (keys, values), each B H S K\n"
        "result: (context, cache): B H 1 K, and the keys and values of S + 1 tokens"
    ),
    signature="def attend_cached(q: Tensor, k: Tensor, v: Tensor, cache):",
    body="""
if cache is not None:
    k = torch.cat((cache[0], k), dim=2)
    v = torch.cat((cache[1], v), dim=2)
weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
return weights @ v, (k, v)""",
    hints=(
        "At the first token the cache is None: keys and values are those of the token alone.",
        "Append along the axis of tokens: `torch.cat((cache[0], k), dim=2)`.",
        "Return both: the context, and the new pair (keys, values).",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="first token",
            arguments=(ONE, ONE, 5 * ONE, None),
            expected=(5 * ONE, (ONE, 5 * ONE)),
            why="the first token attends to itself only: its context is its value, 5",
        ),
        Case(
            rung="worked example",
            arguments=(0 * ONE, ONE, 5 * ONE, (2 * ONE, 3 * ONE)),
            expected=(
                4 * ONE,
                (torch.tensor([[[[2.0], [1.0]]]]), torch.tensor([[[[3.0], [5.0]]]])),
            ),
            why="a query 0 has equal weights: (3 + 5) / 2 = 4; the new token is the last",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the cache is not used: the new token attends to itself only",
            {"cache is not None": "False"},
        ),
        Mistake(
            "the new token is missing among the keys (off by one): append, then attend",
            {
                "weights = (q @ k": (
                    "old = cache or (k[:, :, :0], v[:, :, :0])\nweights = (q @ old[0]"
                ),
                "weights @ v,": "weights @ old[1],",
            },
        ),
        Mistake(
            "the returned cache has the new token only; return all keys and values",
            {", (k, v)": ", (k[:, :, -1:], v[:, :, -1:])"},
        ),
        Mistake(
            "the new token is put before the old ones; append it at the end",
            {"(cache[0], k)": "(k, cache[0])", "(cache[1], v)": "(v, cache[1])"},
        ),
        Mistake("the keys are returned as values", {", (k, v)": ", (k, k)"}),
        Mistake("keys and values of the returned cache are swapped", {", (k, v)": ", (v, k)"}),
        Mistake(
            "the scale is missing: divide the scores by sqrt(K)", {" / q.shape[-1] ** 0.5": ""}
        ),
        Mistake(
            "the cache is appended along the heads (axis 1); positions are axis 2",
            {"dim=2": "dim=1"},
        ),
        Mistake(
            "the softmax is over the queries (axis -2); it is over the keys (axis -1)",
            {".softmax(-1)": ".softmax(-2)"},
        ),
        Mistake(
            "the returned cache lacks the new token: append its key and value",
            {", (k, v)": ", cache or (k, v)"},
        ),
    ),
    plug=Plug(part="the cache of the decoder's self-attention", transform=_transform),
)
