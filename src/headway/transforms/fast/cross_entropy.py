"""Fast twin of the cross-entropy: logits are computed in chunks and never stored whole."""

from __future__ import annotations

from typing import Any

import torch

from headway.shapes import Float, Int, Tensor
from headway.transforms.fast.linear import product

# Positions whose logits are in memory at once. 512 x 8,000 floats are 16 MB, which stay in the
# last-level cache of a CPU between the product, the softmax and the products of the gradient.
CHUNK = 512


def chunked_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, " N"],
    smoothing: float = 0.0,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return what `cross_entropy_sum` does.

    The gradient of the first sum is computed in the forward pass, chunk by chunk, so that logits
    need not be stored; the second sum carries no gradient. Under autocast the products are in its
    dtype and the softmax in float32.
    """
    dtype = hidden.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    wants_grad = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    with torch.autocast(hidden.device.type, enabled=False):
        sums: tuple[Tensor, Tensor] = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, targets, smoothing, weights, dtype, wants_grad
        )
    return sums


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        weights: Tensor | None,
        dtype: torch.dtype,
        wants_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(weight.dtype, torch.float32)
        rows, matrix = hidden.detach().to(dtype), weight.detach().to(dtype)
        grad_rows = torch.empty_like(rows) if wants_grad else None
        grad_matrix = torch.zeros_like(weight, dtype=exact) if wants_grad else None
        total = torch.zeros((), device=hidden.device, dtype=exact)
        nats = torch.zeros_like(total)
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            chosen = targets[start : start + CHUNK, None]
            logits = product(part, matrix).to(exact)
            probabilities = logits.softmax(-1)
            # log sum exp from the most probable entry, whose probability is at least 1/V
            log_sum = logits.amax(-1) - probabilities.amax(-1).log()
            surprise = log_sum - logits.gather(1, chosen)[:, 0]
            smooth = surprise
            if smoothing:
                smooth = (1 - smoothing) * surprise + smoothing * (log_sum - logits.mean(-1))
            counts = None if weights is None else weights[start : start + CHUNK].to(exact)
            nats += surprise.sum() if counts is None else surprise @ counts
            total += smooth.sum() if counts is None else smooth @ counts
            if grad_rows is None or grad_matrix is None:
                continue
            # d total / d logits = p - (1 - e) [v = y] - e / V
            grad = probabilities.sub_(smoothing / logits.shape[-1]) if smoothing else probabilities
            grad.scatter_add_(1, chosen, grad.new_full(chosen.shape, smoothing - 1))
            if counts is not None:
                grad *= counts[:, None]
            grad = grad.to(dtype)
            grad_rows[start : start + CHUNK] = product(grad, matrix.T)
            grad_matrix += product(grad.T, part.T)
        ctx.save_for_backward(grad_rows, grad_matrix)
        ctx.dtypes = hidden.dtype, weight.dtype
        ctx.mark_non_differentiable(nats)
        return total, nats

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grad_rows, grad_matrix = ctx.saved_tensors
        hidden_dtype, weight_dtype = ctx.dtypes
        rows = (grad_rows * grad).to(hidden_dtype) if ctx.needs_input_grad[0] else None
        matrix = (grad_matrix * grad).to(weight_dtype) if ctx.needs_input_grad[1] else None
        return rows, matrix, None, None, None, None, None
