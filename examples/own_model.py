"""Build a model from the blocks, train it, look inside: python examples/own_model.py

A Transformer encoder that sorts: eight digits in, the same digits in order out. Positions
are added because the output at position t must be the digit of rank t.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from headway.attention import Mask, MultiHeadAttention, record_attention
from headway.blocks import (
    Added,
    Embeddings,
    Encoder,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedTable,
    PreNorm,
)
from headway.models import init_weights
from headway.training import Loss, TrainingState, fit

LENGTH, DIM = 8, 32


class Sorter(nn.Module):
    """logits[t] = encoder(digits + positions)[t] W: the digit at position t after sorting."""

    def __init__(self, num_layers: int = 2, num_heads: int = 4) -> None:
        super().__init__()
        self.embedding = Embeddings(nn.Embedding(10, DIM), Added(LearnedTable(DIM, LENGTH)))
        blocks = [
            EncoderBlock(
                MultiHeadAttention(DIM, num_heads),
                FeedForward(DIM, 4 * DIM),
                residual=lambda: PreNorm(LayerNorm(DIM)),
            )
            for _ in range(num_layers)
        ]
        self.encoder = Encoder(blocks, LayerNorm(DIM))
        self.output = nn.Linear(DIM, 10)
        init_weights(self)

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        return self.output(self.encoder(self.embedding(digits), Mask()))


def sorting(model: Sorter, digits: torch.Tensor) -> Loss:
    targets = digits.sort(1).values.flatten()
    total = cross_entropy(model(digits).flatten(0, 1), targets, reduction="sum")
    return Loss(total, total.detach(), digits.numel())


def batches():
    while True:
        yield 0, 0, torch.randint(10, (64, LENGTH))


torch.manual_seed(0)
model = Sorter()
run = TrainingState(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
fit(run, batches(), sorting, steps=400)
digits = torch.randint(10, (500, LENGTH))
with record_attention(model.eval()) as maps:
    accuracy = (model(digits).argmax(-1) == digits.sort(1).values).float().mean()
print(f"{accuracy:.0%} of the digits at the right position; attention maps: {', '.join(maps)}")
