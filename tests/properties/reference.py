"""A reference of attention in float64, pair by pair from the definitions, with which captured
weights are compared. It shares no line with the kernels."""

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.attention import (
    Additive,
    Bilinear,
    CappedDot,
    Dot,
    Kernel,
    LinearDot,
    LinearElu,
    Mask,
    MultiHeadAttention,
    SinkDot,
    SlidingWindow,
)


def may_attend(mask: Mask, window: int | None, row: int, t: int, s: int, size: tuple) -> bool:
    """Return whether query t may attend to key s, by the rules in the docstring of `Mask`."""
    queries, keys = size
    position = (keys - queries if mask.past is None else int(mask.past[row])) + t
    windows = [w for w in (mask.window, window) if w is not None]
    return (
        (not mask.causal or s <= position)
        and all(abs(position - s) < w for w in windows)
        and (mask.keys is None or bool(mask.keys[row, s]))
    )


class ReferenceKernel(Kernel):
    """The definition of `kernel`. Every forward pass appends its weights to `computed`."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.computed: list[Tensor] = []

    def _scores(self, head: int, q: Tensor, k: Tensor) -> Tensor:
        """Return the scores of one query and S keys."""
        kernel = self.kernel
        if isinstance(kernel, Additive):
            return (
                torch.tanh(k @ kernel.of_key[head] + q @ kernel.of_query[head])
                @ kernel.vector[head]
            )
        if isinstance(kernel, Bilinear):
            return k @ (q @ kernel.matrix[head])
        if isinstance(kernel, LinearElu):
            return (F.elu(k) + 1) @ (F.elu(q) + 1)
        if isinstance(kernel, CappedDot):
            scores = k @ q * (len(q) ** -0.5 if kernel.scale is None else kernel.scale)
            return scores if kernel.cap is None else kernel.cap * torch.tanh(scores / kernel.cap)
        return k @ q / (1 if isinstance(kernel, Dot) else math.sqrt(len(q)))

    def _normalised(self, head: int, scores: Tensor, bias: Tensor) -> Tensor:
        """Return the weights of one query from its scores."""
        sink = self.kernel.sinks[head].exp() if isinstance(self.kernel, SinkDot) else 0
        if isinstance(self.kernel, LinearDot):
            return scores + bias
        exps = scores * bias.exp() if isinstance(self.kernel, LinearElu) else (scores + bias).exp()
        return exps / (exps.sum() + sink)

    def weights(self, q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None = None) -> Tensor:
        rows, heads, queries, _ = q.shape
        keys = k.shape[2]
        has_window = isinstance(self.kernel, SlidingWindow | CappedDot)
        window = self.kernel.window if has_window else None
        weights = torch.zeros(rows, heads, queries, keys, dtype=torch.float64)
        added = weights if bias is None else bias.double().expand(weights.shape)
        for b in range(rows):
            for t in range(queries):
                size = (queries, keys)
                allowed = [s for s in range(keys) if may_attend(mask, window, b, t, s, size)]
                for h in range(heads if allowed else 0):
                    head_keys = k[b, h * k.shape[1] // heads, allowed]
                    scores = self._scores(h, q[b, h, t], head_keys)
                    weights[b, h, t, allowed] = self._normalised(h, scores, added[b, h, t, allowed])
        return weights

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None
    ) -> Tensor:
        self.computed.append(self.weights(q, k, mask, bias))
        values = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
        return self.computed[-1] @ values


def reference_model(model: nn.Module) -> tuple[Any, dict[str, ReferenceKernel]]:
    """Return a float64 copy of the model, and its reference kernels by the name of the layer."""
    exact = copy.deepcopy(model).double()
    exact.register_forward_pre_hook(lambda _, inputs: tuple(map(_in_float64, inputs)))
    kernels = {}
    for name, module in exact.named_modules():
        if isinstance(module, MultiHeadAttention):
            kernels[name] = module.kernel = ReferenceKernel(module.kernel)
    return exact, kernels


def _in_float64(tensor: Any) -> Any:
    """Return images in float64; ids and masks unchanged."""
    return tensor.double() if isinstance(tensor, Tensor) and tensor.is_floating_point() else tensor
