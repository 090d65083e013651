"""Continuations of live prefixes: the best of all, and their union with others."""

from collections.abc import Sequence

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import upload
from headway.decoding.largest import largest_sums


def best_continuations(
    log_p: Float[Tensor, "B W V"],
    scores: Float[Tensor, "B W"],
    count: int,
    penalty: Float[Tensor, "B V"] | None,
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return log-probabilities, parent beams and tokens of the best `count` continuations of each
    search, best first.

    `penalty` affects the choice, not the log-probability.
    """
    ranked = log_p if penalty is None else log_p - penalty[:, None]
    totals, places = largest_sums(ranked, scores, min(count, log_p[0].numel()))
    parents, tokens = places // log_p.shape[-1], places % log_p.shape[-1]
    return totals if penalty is None else totals + penalty.gather(1, tokens), parents, tokens


def wanted_continuations(
    log_p: Float[Tensor, "B W V"],
    scores: Float[Tensor, "B W"],
    wanted: Sequence[Sequence[int]],
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return the continuations by the best token of each prefix, and by those that its phrases
    want: however improbable, they are candidates. wanted: tokens of each of the B W prefixes."""
    most = max(map(len, wanted))
    rows = [[*tokens, *[tokens[0]] * (most - len(tokens))] for tokens in wanted]
    tokens = upload(torch.tensor(rows), log_p.device).view(*scores.shape, most)
    tokens = torch.cat((tokens, log_p.argmax(-1, keepdim=True)), dim=-1)
    totals = log_p.gather(2, tokens) + scores[:, :, None]
    parents = torch.arange(scores.shape[1], device=log_p.device)[:, None].expand(tokens.shape[1:])
    return (
        totals.flatten(1),
        parents.expand(len(tokens), -1, -1).flatten(1),
        tokens.flatten(1),
    )


def united(
    best: tuple[Tensor, Tensor, Tensor], more: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the candidates of both, best first; a candidate of both occurs twice."""
    totals, *others = (torch.cat(pair, dim=1) for pair in zip(best, more, strict=True))
    order = totals.argsort(dim=1, descending=True, stable=True)
    parents, tokens = (other.gather(1, order) for other in others)
    return totals.gather(1, order), parents, tokens
