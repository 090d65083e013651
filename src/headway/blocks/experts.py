"""Mixture of experts: y = sum over the k chosen experts e of p_e expert_e(x), p = softmax(W_r x).

A feed-forward layer is replaced by E of them, the experts. A router sends each token to the k with
the largest probabilities, so that a token is multiplied by k / E of the parameters. Which expert
reads which tokens is learned.

>>> import torch
>>> from headway.blocks import GatedFeedForward, MixtureOfExperts, Router
>>> router = Router(model_dim=2, num_experts=3, chosen=2)
>>> weights = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-9.0, -9.0]])  # a row for each expert
>>> _ = router.project.weight.data.copy_(weights)
>>> words = torch.tensor([[1.0, 0.0], [1.0, 1.0]])  # N D: two words
>>> probabilities = router(words).detach()  # N E
>>> probabilities.round(decimals=2)
tensor([[0.8800, 0.1200, 0.0000],
        [0.5000, 0.5000, 0.0000]])
>>> experts, weights = router.choice(probabilities)  # N k: of each word; the weights sum to 1
>>> experts[0], weights[0].round(decimals=2)
(tensor([0, 1]), tensor([0.8800, 0.1200]))
>>> mixture = MixtureOfExperts(router, [GatedFeedForward(2, 4) for _ in range(3)])
>>> mixture(words[None]).shape  # B T D
torch.Size([1, 2, 2])
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from headway.base.settings import WIDTH, count, setting
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks.feedforward import FeedForward, GatedFeedForward


@dataclass(frozen=True, kw_only=True)
class Experts:
    """Which feed-forward layers are mixtures of experts, and of how many."""

    total: int = count(
        0, "number of experts E of a layer; 0: no mixtures of experts", 4096, least=0
    )
    chosen: int = count(2, "number of experts k that read a token", 4096)
    ffn_dim: int | None = count(
        None, "inner dimension of an expert; if unset, that of the feed-forward layers", WIDTH
    )
    shared_dim: int = count(
        0, "inner dimension of an expert that reads every token; 0: none", WIDTH, least=0
    )
    weights: Literal["sum-to-1", "probabilities"] = setting(
        "sum-to-1", "weights of the chosen experts: scaled to sum to 1, or the probabilities"
    )
    layers: str = setting(
        "e", "kinds of layers, repeated: e for a mixture of experts, d for one dense layer"
    )
    balance: float = setting(
        0.01,
        "weight of the balance loss in training, which is 1 if all experts read equally often",
        ge=0,
    )

    def __post_init__(self) -> None:
        if not self.layers or set(self.layers) - set("ed"):
            raise ValueError(f"{self.layers=} must be letters of e, d")
        if self.total and self.chosen > self.total:
            raise ValueError(f"{self.chosen=} must be at most {self.total=}")

    def are_in(self, layer: int) -> bool:
        """Return whether layer number `layer`, from 0, is a mixture of experts."""
        return self.total > 0 and self.layers[layer % len(self.layers)] == "e"


class Router(nn.Module):
    """p = softmax(W x + b): the probability of each expert for each token. Shazeer et al. 2017.

    chosen: k. sums_to_1: whether the weights of the chosen experts are scaled to sum to 1 (Mixtral,
    Jiang et al. 2024, section 2.1), or are their probabilities (OLMoE). The softmax is in float32.
    """

    def __init__(
        self,
        model_dim: int,
        num_experts: int,
        chosen: int,
        sums_to_1: bool = True,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.project = nn.Linear(model_dim, num_experts, bias=bias)
        self.chosen = chosen
        self.sums_to_1 = sums_to_1

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
        return self.project(x).float().softmax(-1)

    def choice(
        self, probabilities: Float[Tensor, "N E"]
    ) -> tuple[Int[Tensor, "N k"], Float[Tensor, "N k"]]:
        """Return the k most probable experts of each token, and their weights."""
        weights, experts = probabilities.topk(self.chosen)
        return experts, weights / weights.sum(-1, keepdim=True) if self.sums_to_1 else weights


class MixtureOfExperts(nn.Module):
    """sum over the chosen experts e of p_e expert_e(x), and sigmoid(w x) shared(x) if there is one.

    experts: E feed-forward layers. shared: a layer that reads every token (Qwen-MoE), with the gate
    w. Each expert computes its tokens at once; one without tokens computes nothing.
    """

    def __init__(
        self,
        router: Router,
        experts: Sequence[FeedForward | GatedFeedForward],
        shared: FeedForward | GatedFeedForward | None = None,
    ) -> None:
        super().__init__()
        self.router = router
        self.experts = nn.ModuleList(experts)
        self.shared = shared
        width = router.project.in_features
        self.shared_gate = None if shared is None else nn.Linear(width, 1, bias=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        tokens = x.flatten(0, 1)
        experts, weights = self.router.choice(self.router(tokens))
        y = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, rank = (experts == number).nonzero(as_tuple=True)
            if len(token):
                weight = weights[token, rank, None].to(x.dtype)
                y = y.index_add(0, token, (expert(tokens[None, token])[0] * weight).to(y.dtype))
        y = y.view_as(x)
        if self.shared is not None and self.shared_gate is not None:
            y = y + self.shared_gate(x).sigmoid() * self.shared(x)
        return y


def balance_loss(
    probabilities: Float[Tensor, "N E"], chosen: int, real: Bool[Tensor, " N"]
) -> Float[Tensor, ""]:
    """Return E sum_e f_e P_e over the real tokens: 1 if all experts read equally often, E at most.

    f_e: part of the choices that are expert e; P_e: its mean probability, which has the gradient.
    A router that prefers an expert makes that expert better and is then right to prefer it; the
    loss prevents that. Padding (real = False) is not counted. Fedus et al. 2022 (Switch),
    equations 4 to 6.
    """
    num_experts, kept = probabilities.shape[1], probabilities[real]
    choices = kept.topk(chosen).indices.flatten()
    parts = torch.bincount(choices, minlength=num_experts) / max(1, len(choices))
    return num_experts * (parts * kept.sum(0) / max(1, len(kept))).sum()


@contextmanager
def record_routing(model: nn.Module) -> Iterator[dict[str, Float[Tensor, "N E"]]]:
    """Collect the probabilities of the experts in each layer of a forward pass in the `with` block.

    Yields a dictionary from the name of a layer to the probabilities of its last call, with their
    gradient; the N tokens are those of the batch in order.
    """
    found: dict[str, Tensor] = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, MixtureOfExperts):
            handles.append(module.router.register_forward_hook(_keep_as(found, name)))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _keep_as(
    found: dict[str, Tensor], name: str
) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
    def keep(router: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        found[name] = output

    return keep
