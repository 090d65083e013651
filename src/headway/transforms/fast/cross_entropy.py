"""Fast twin of the cross-entropy: logits are computed in chunks and never stored whole."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Int, Tensor
from headway.transforms.autocast import autocast_dtype
from headway.transforms.fast.linear import product
from headway.transforms.kernels import computes

# Positions whose logits are in memory at once. 512 x 8,000 floats are 16 MB, which stay in the
# last-level cache of a CPU between the product, the softmax and the products of the gradient.
CHUNK = 512

ENTRIES, BYTES_FOR_ENTRY = 2**30, 64
"""On a GPU: logits in memory at once, since its products need many rows. 2 GB of them in bfloat16,
and fewer where it has less memory than this number of bytes for each."""
MULTIPLE = 64
"""On a GPU the vocabulary is padded to a multiple of it: a row of 50,257 numbers in bfloat16 would
begin at an address from which neither products nor kernels can read 16 bytes at a time."""


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
    dtype = autocast_dtype(hidden.device.type) or hidden.dtype
    wants_grad = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    with torch.autocast(hidden.device.type, enabled=False):
        sums: tuple[Tensor, Tensor] = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, targets, smoothing, weights, dtype, wants_grad
        )
    return sums


class _Sums(NamedTuple):
    """The sums over some rows of the smoothed loss and of -ln p(target), and the gradient of the
    first with respect to the logits, or None."""

    total: Float[Tensor, ""]
    nats: Float[Tensor, ""]
    grad: Float[Tensor, "N V"] | None


def _loss(
    logits: Float[Tensor, "N V"],
    vocabulary: int,
    targets: Int[Tensor, " N"],
    weights: Float[Tensor, " N"] | None,
    smoothing: float,
    wants_grad: bool,
) -> _Sums:
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chosen = targets[:, None]
    probabilities = logits.softmax(-1)
    # log sum exp from the most probable entry, whose probability is at least 1/V
    log_sum = logits.amax(-1) - probabilities.amax(-1).log()
    surprise = log_sum - logits.gather(1, chosen)[:, 0]
    smooth = surprise
    if smoothing:
        smooth = (1 - smoothing) * surprise + smoothing * (log_sum - logits.mean(-1))
    nats = surprise.sum() if weights is None else surprise @ weights
    total = smooth.sum() if weights is None else smooth @ weights
    if not wants_grad:
        return _Sums(total, nats, None)
    # d total / d logits = p - (1 - e) [v = y] - e / V
    grad = probabilities.sub_(smoothing / vocabulary) if smoothing else probabilities
    grad.scatter_add_(1, chosen, grad.new_full(chosen.shape, smoothing - 1))
    if weights is not None:
        grad *= weights[:, None]
    return _Sums(total, nats, grad)


def _loss_by_kernel(
    logits: Float[Tensor, "N W"],
    vocabulary: int,
    targets: Int[Tensor, " N"],
    weights: Float[Tensor, " N"] | None,
    smoothing: float,
    wants_grad: bool,
) -> _Sums:
    from headway.transforms.kernels.loss import loss_of_rows

    losses, surprises = loss_of_rows(
        logits, vocabulary, targets, weights, smoothing, wants_grad=wants_grad
    )
    return _Sums(losses.sum(), surprises.sum(), logits if wants_grad else None)


def _entries(device: torch.device) -> int:
    memory = torch.cuda.get_device_properties(device).total_memory
    return min(ENTRIES, int(memory) // BYTES_FOR_ENTRY)


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
        vocabulary = len(matrix)
        loss_of, chunk = _loss, CHUNK
        if computes(rows):
            loss_of = _loss_by_kernel
            matrix = F.pad(matrix, (0, 0, 0, -vocabulary % MULTIPLE))
            chunk = max(CHUNK, _entries(rows.device) // len(matrix))
        grad_rows = torch.empty_like(rows) if wants_grad else None
        grad_matrix = torch.zeros_like(weight, dtype=exact) if wants_grad else None
        total = torch.zeros((), device=hidden.device, dtype=exact)
        nats = torch.zeros_like(total)
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            logits = product(part, matrix)
            counts = None if weights is None else weights[start : start + chunk].to(exact)
            sums = loss_of(
                logits, vocabulary, targets[start : start + chunk], counts, smoothing, wants_grad
            )
            total += sums.total
            nats += sums.nats
            if grad_rows is None or grad_matrix is None or sums.grad is None:
                continue
            grad = sums.grad.to(dtype)
            grad_rows[start : start + chunk] = product(grad, matrix.T)
            grad_matrix += product(grad.T, part.T)[:vocabulary]
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
