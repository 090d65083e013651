"""Quality of embeddings without fine-tuning: k-nearest-neighbour and linear classification."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Int, Tensor

CHUNK = 512


def knn_accuracy(
    vectors: Float[Tensor, "N D"],
    classes: Int[Tensor, " N"],
    queries: Float[Tensor, "M D"],
    true: Int[Tensor, " M"],
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """Return the k-nearest-neighbour accuracy: the fraction of queries with the correct class.

    vectors, classes: labelled examples. queries, true: examples to classify. The predicted class is
    argmax_c of the sum, over the k nearest neighbours i of class c, of exp(cos(query, vector_i) /
    temperature). Wu et al. 2018, section 3.4; Caron et al. 2021, section 4.1.
    """
    if not len(vectors) or not len(queries):
        raise ValueError(f"{len(vectors)=} and {len(queries)=} must not be 0")
    vectors, num_classes = F.normalize(vectors.float(), dim=-1), int(classes.max()) + 1
    correct = 0
    for start in range(0, len(queries), CHUNK):
        chunk = F.normalize(queries[start : start + CHUNK].float(), dim=-1)
        nearest = (chunk @ vectors.T).topk(min(k, len(vectors)), dim=-1)
        votes = torch.zeros(len(chunk), num_classes)
        weights = (nearest.values / temperature).exp()
        votes.scatter_add_(1, classes[nearest.indices].long(), weights)
        correct += int((votes.argmax(-1) == true[start : start + CHUNK]).sum())
    return correct / len(queries)


def linear_accuracy(
    vectors: Float[Tensor, "N D"],
    classes: Int[Tensor, " N"],
    queries: Float[Tensor, "M D"],
    true: Int[Tensor, " M"],
    penalty: float = 1e-3,
) -> float:
    """Return the accuracy on the queries of a linear classifier of the labelled vectors.

    The classifier minimises mean cross-entropy + penalty |W|^2 / 2 over vectors that are
    standardised to mean 0 and variance 1 per dimension. Caron et al. 2021, section 4.1 (linear
    evaluation); by L-BFGS from 0, so that the result does not depend on a random seed.
    """
    mean, deviation = vectors.float().mean(0), vectors.float().std(0).clamp_min(1e-6)
    x, y = (vectors.float() - mean) / deviation, classes.long()
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
    logits = ((queries.float() - mean) / deviation) @ weight.detach().T + bias.detach()
    return float((logits.argmax(-1) == true).float().mean())


def spread(vectors: Float[Tensor, "N D"]) -> float:
    """Return how evenly the vectors are spread over all directions, from 0 (collapsed) to 1.

    It is sqrt(D) times the standard deviation per dimension of the vectors scaled to length 1,
    averaged over dimensions. Chen and He 2021, section 4.1.
    """
    unit = F.normalize(vectors.float(), dim=-1)
    return float(unit.std(0, correction=0).mean() * unit.shape[1] ** 0.5)
