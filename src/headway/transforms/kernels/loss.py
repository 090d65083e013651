"""The loss of rows of logits and its gradient in one kernel."""

import torch
import triton
import triton.language as tl

from headway.base.shapes import Float, Int, Tensor

BLOCK = 2048
"""Logits that a program holds at a time."""


def loss_of_rows(
    logits: Float[Tensor, "N W"],
    vocabulary: int,
    targets: Int[Tensor, " N"],
    weights: Float[Tensor, " N"] | None,
    smoothing: float,
    *,
    wants_grad: bool,
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Return the smoothed loss and the surprise -ln p(target) of each row, times its weight.

    vocabulary: number of logits of a row; the rest of its W columns are padding. wants_grad: the
    gradient of the sum of the losses is written over the logits, in their dtype, and 0 over the
    padding. Each row is read twice and written once. All is computed in float32.
    """
    num_rows, width = logits.shape
    losses, surprises = logits.new_empty(2, num_rows, dtype=torch.float32).unbind()
    _loss_of_row[(num_rows,)](
        logits,
        targets.contiguous(),
        targets if weights is None else weights.contiguous(),
        losses,
        surprises,
        vocabulary,
        width,
        smoothing,
        has_weights=weights is not None,
        wants_grad=wants_grad,
        block=BLOCK,
        num_warps=4,
    )
    return losses, surprises


@triton.jit  # type: ignore[untyped-decorator]
def _loss_of_row(  # type: ignore[no-untyped-def]
    logits,
    targets,
    weights,
    losses,
    surprises,
    vocabulary: tl.constexpr,
    width: tl.constexpr,
    smoothing,
    has_weights: tl.constexpr,
    wants_grad: tl.constexpr,
    block: tl.constexpr,
):
    """One program for each row. Triton reads types as expressions, so there are none."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * width
    target = tl.load(targets + row)
    of_target = tl.load(logits + target).to(tl.float32)
    # the largest logit so far, the sum of exp(logit - largest), and the sum of the logits
    largest, total, plain_sum = -3.0e38, 0.0, 0.0
    for start in range(0, vocabulary, block):
        at = start + tl.arange(0, block)
        is_word = at < vocabulary
        # the padding is read, too: a limit that is no multiple of 8 would make a load of each logit
        x = tl.load(logits + at, mask=at < width, other=0.0).to(tl.float32)
        x = tl.where(is_word, x, -float("inf"))
        larger = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), 0)
        plain_sum += tl.sum(tl.where(is_word, x, 0.0), 0)
        largest = larger
    log_sum = largest + tl.log(total)
    weight = 1.0
    if has_weights:
        weight = tl.load(weights + row).to(tl.float32)
    surprise = log_sum - of_target
    smooth = (1 - smoothing) * surprise + smoothing * (log_sum - plain_sum / vocabulary)
    tl.store(surprises + row, surprise * weight)
    tl.store(losses + row, smooth * weight)
    if wants_grad:
        # d loss / d logits = p - (1 - e) [v = y] - e / V
        for start in range(0, vocabulary, block):
            at = start + tl.arange(0, block)
            x = tl.load(logits + at, mask=at < width, other=0.0).to(tl.float32)
            grad = tl.exp(x - log_sum) - smoothing / vocabulary
            grad = tl.where(at == target, grad - (1 - smoothing), grad) * weight
            grad = tl.where(at < vocabulary, grad, 0.0)
            tl.store(logits + at, grad.to(logits.dtype.element_ty), mask=at < width)
