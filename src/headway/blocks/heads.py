"""What stands on an encoder: its summary of a text, and its guesses at hidden words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

from headway.shapes import Bool, Float, Tensor

Pooling = Literal["mean", "first"]
"""How a text's vectors become one: their mean, or that of [CLS]."""


class Pooler(nn.Module):
    """activation(W h_1 + b): one vector for a text, from its first token, [CLS].

    Devlin et al. 2019, released code; tanh is theirs.
    """

    def __init__(self, model_dim: int, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.project = nn.Linear(model_dim, model_dim)
        self.activation = activation

    def forward(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        return self.activation(self.project(hidden[:, 0]))


class MaskedWordHead(nn.Module):
    """E^T norm(activation(W h + b)) + c: logits of the word at a hidden place.

    E is the embedding's matrix (`output.weight` is to be tied to it), W goes to its width. Devlin
    et al. 2019, section 3.1 and released code.
    """

    def __init__(
        self,
        model_dim: int,
        embedding_dim: int,
        vocabulary: int,
        activation: Callable[[Tensor], Tensor],
        norm: nn.Module,
    ) -> None:
        super().__init__()
        self.transform = nn.Linear(model_dim, embedding_dim)
        self.activation = activation
        self.norm = norm
        self.output = nn.Linear(embedding_dim, vocabulary)

    def forward(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        logits: Tensor = self.output(self.norm(self.activation(self.transform(hidden))))
        return logits


def text_pooled(
    hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"], pooling: Pooling
) -> Float[Tensor, "B D"]:
    """One vector for each text: `mean_pooled`, or that of its first token, [CLS]."""
    return mean_pooled(hidden, keys) if pooling == "mean" else hidden[:, 0]


def mean_pooled(hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """The mean of each text's real tokens. Reimers and Gurevych 2019, section 3."""
    shares = keys.to(hidden.dtype)[..., None]
    return (hidden * shares).sum(1) / shares.sum(1)
