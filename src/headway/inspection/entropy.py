"""Entropy of attention weights."""

import math
from collections.abc import Sequence

from headway.attention import CappedDot, Kernel, Mask, SlidingWindow
from headway.base.shapes import Float, Tensor
from headway.bundle import Bundle, attention_of


def relative_entropy(
    weights: Float[Tensor, "H T S"], causal: bool, window: int | None = None
) -> Float[Tensor, "H T"]:
    """Return -sum_s a_s log a_s / log n for each query: 0 if it attends to one key, 1 if it attends
    equally to all n.

    n: the number of keys that the query may attend to: all S, or with a causal mask those up to its
    position, restricted to the window if there is one. A query with one key gets NaN.
    """
    a = weights.double()
    entropy = -(a * a.clamp_min(1e-300).log()).sum(-1)
    allowed = Mask(causal=causal, window=window).dense(a.shape[1], a.shape[2], a.device)
    choices = allowed[0, 0].sum(-1).double()
    return entropy / choices.log().masked_fill(choices == 1, math.nan)


def attention_entropies(
    bundle: Bundle, sources: Sequence[str], targets: Sequence[str]
) -> dict[str, list[float]]:
    """Return for each layer the mean `relative_entropy` of each head over all queries of all
    sentences.

    Left out are layers whose weights do not sum to 1 (scores without softmax), and queries that may
    attend to only one key.
    """
    kernels = {
        name.removesuffix(".kernel"): module
        for name, module in bundle.model.named_modules()
        if isinstance(module, Kernel) and module.normalised
    }
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}
    for source, target in zip(sources, targets, strict=True):
        reading = bundle.probe(source, target=target).reading
        for layer, weights in attention_of(reading).maps.items():
            if layer not in kernels:
                continue
            kernel = kernels[layer]
            causal = layer.startswith("decoder") and not layer.endswith(".cross")
            window = kernel.window if isinstance(kernel, SlidingWindow | CappedDot) else None
            entropy = relative_entropy(weights, causal, window)
            sums[layer] = sums.get(layer, 0) + entropy.nansum(1)  # H T -> H
            counts[layer] = counts.get(layer, 0) + int((~entropy[0].isnan()).sum())
    return {layer: (sums[layer] / counts[layer]).tolist() for layer in sums if counts[layer]}
