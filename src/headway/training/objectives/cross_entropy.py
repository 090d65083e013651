"""Cross-entropy: the loss of a predicted distribution p for the true token y is -log p_y.

p = softmax(h W^T) for a hidden vector h and the output projection W. The loss is 0 if the true
token has probability 1, and log V for a uniform guess among V tokens.

>>> import torch
>>> from headway.training import cross_entropy_sum
>>> hidden, projection = torch.zeros(3, 2), torch.eye(4, 2)  # three words, a vocabulary of 4
>>> loss, nats = cross_entropy_sum(hidden, projection, torch.tensor([0, 1, 2]))
>>> round(float(loss), 4)  # 3 log 4: all tokens have the same probability
4.1589
"""

from collections.abc import Callable

import torch
from torch import nn

from headway.base.shapes import Float, Int, Tensor
from headway.models import GPT
from headway.transforms.fast.cross_entropy import chunked_cross_entropy
from headway.transforms.fast.table import is_fast


class KnownLogits(nn.Identity):
    """The output layer of a model whose hidden vectors are logits already.

    Another program computes them, which keeps the matrix: `weight` has no rows.
    """

    bias = None

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.weight = torch.empty(0, vocabulary)


def cross_entropy_sum(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    targets: Int[Tensor, " N"],
    smoothing: float = 0.0,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the sums over N of -(1 - e) log p_y - e/V sum_v log p_v, and of -log p_y alone.

    smoothing: e, label smoothing (Szegedy et al. 2016, section 7). weights: the weight of each of
    the N positions in both sums; 1 if None. The second sum carries no gradient.
    """
    return _of_logits(hidden @ weight.T, targets, smoothing, weights)


def _of_logits(
    logits: Float[Tensor, "N V"],
    targets: Int[Tensor, " N"],
    smoothing: float,
    weights: Float[Tensor, " N"] | None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    exact = torch.promote_types(logits.dtype, torch.float32)
    log_p = logits.to(exact).log_softmax(-1)
    nats = -log_p.gather(1, targets[:, None])[:, 0]
    loss = (1 - smoothing) * nats - smoothing * log_p.mean(-1)
    if weights is not None:
        nats, loss = nats * weights.to(exact), loss * weights.to(exact)
    return loss.sum(), nats.detach().sum()


def _of_known(
    logits: Float[Tensor, "N V"],
    matrix: Tensor,
    targets: Int[Tensor, " N"],
    smoothing: float = 0.0,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the sums of `cross_entropy_sum` for logits, whatever the matrix."""
    return _of_logits(logits, targets, smoothing, weights)


def with_bias(
    hidden: Float[Tensor, "N D"], output: nn.Linear | KnownLogits
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "V E"]]:
    """Return hidden vectors and a matrix whose product is the output layer's, bias included.

    h W^T + b = [h, 1] [W, b]^T.
    """
    if output.bias is None:
        return hidden, output.weight
    ones = hidden.new_ones(len(hidden), 1)
    return torch.cat((hidden, ones), 1), torch.cat((output.weight, output.bias[:, None]), 1)


def plain_logits(model: GPT, hidden: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
    """Return `GPT.logits` by one product with the matrix of the output, however it is stored: so
    the scores of a model are the same before and after it is saved and loaded.
    """
    if isinstance(model.output, KnownLogits):
        return hidden
    scale, cap = model.config.logit_scale, model.config.logit_cap
    inputs, matrix = with_bias(hidden if scale == 1 else hidden * scale, model.output)
    logits = inputs @ matrix.T
    return logits if cap is None else cap * (logits / cap).tanh()


def next_token_sum(
    model: GPT,
    hidden: Float[Tensor, "N D"],
    targets: Int[Tensor, " N"],
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the sums of `cross_entropy_sum` for a language model, whose logits may have a bias, a
    scale and a soft limit.

    hidden: the result of `GPT.hidden` at N positions. A limited logit is no product of hidden and
    matrix, so all N V logits of such a model are in memory.
    """
    if isinstance(model.output, KnownLogits):
        return _of_logits(hidden, targets, 0.0, weights)
    scale, cap = model.config.logit_scale, model.config.logit_cap
    if cap is not None:
        return _of_logits(model.logits(hidden), targets, 0.0, weights)
    hidden = hidden if scale == 1 else hidden * scale
    inputs, matrix = with_bias(hidden, model.output)
    return cross_entropy_of(model)(inputs, matrix, targets, weights=weights)


def cross_entropy_of(model: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return `cross_entropy_sum`, or its fast twin for a model that `fast` was applied to; the
    entropy of the vectors themselves for one with `KnownLogits`."""
    if isinstance(getattr(model, "output", None), KnownLogits):
        return _of_known
    return chunked_cross_entropy if is_fast(model) else cross_entropy_sum
