"""How good vectors are that nobody trained for a task: do neighbours have the same class?"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from headway.shapes import Float, Int, Tensor

CHUNK = 512


def neighbours_accuracy(
    known: Float[Tensor, "N D"],
    classes: Int[Tensor, " N"],
    asked: Float[Tensor, "M D"],
    true: Int[Tensor, " M"],
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """Share of `asked` whose class the k nearest of `known` tell: argmax_c of the sum, over the
    neighbours i of class c, of exp(cos(asked, known_i) / temperature).

    Wu et al. 2018, section 3.4; Caron et al. 2021, section 4.1.
    """
    if not len(known) or not len(asked):
        raise ValueError(f"{len(known)=} and {len(asked)=} must not be 0")
    known, count = F.normalize(known.float(), dim=-1), int(classes.max()) + 1
    right = 0
    for start in range(0, len(asked), CHUNK):
        some = F.normalize(asked[start : start + CHUNK].float(), dim=-1)
        near = (some @ known.T).topk(min(k, len(known)), dim=-1)
        votes = torch.zeros(len(some), count)
        votes.scatter_add_(1, classes[near.indices].long(), (near.values / temperature).exp())
        right += int((votes.argmax(-1) == true[start : start + CHUNK]).sum())
    return right / len(asked)


def linear_accuracy(
    known: Float[Tensor, "N D"],
    classes: Int[Tensor, " N"],
    asked: Float[Tensor, "M D"],
    true: Int[Tensor, " M"],
    penalty: float = 1e-3,
) -> float:
    """Share of `asked` that a linear classifier of `known` gets right: the least of mean cross
    entropy + penalty |W|^2 / 2, over vectors whose numbers have mean 0 and variance 1.

    Caron et al. 2021, section 4.1 (linear evaluation), by L-BFGS from 0, so that nothing is drawn.
    """
    mean, deviation = known.float().mean(0), known.float().std(0).clamp_min(1e-6)
    x, y = (known.float() - mean) / deviation, classes.long()
    weight = torch.zeros(int(classes.max()) + 1, x.shape[1], requires_grad=True)
    bias = torch.zeros(len(weight), requires_grad=True)
    search = torch.optim.LBFGS([weight, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> float:
        search.zero_grad()
        value = F.cross_entropy(x @ weight.T + bias, y) + penalty / 2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    with torch.enable_grad():
        search.step(loss)  # type: ignore[no-untyped-call]
    logits = ((asked.float() - mean) / deviation) @ weight.detach().T + bias.detach()
    return float((logits.argmax(-1) == true).float().mean())


def spread(vectors: Float[Tensor, "N D"]) -> float:
    """1 where the vectors point everywhere, 0 where all are one: sqrt(D) times the mean deviation
    of the numbers of vectors of length 1. Chen and He 2021, section 4.1: what collapses is near 0.
    """
    unit = F.normalize(vectors.float(), dim=-1)
    return float(unit.std(0, correction=0).mean() * unit.shape[1] ** 0.5)
