"""Train a model of Headway on tensors of your own: python examples/own_loop.py

The model learns to count: the next digit after 7 8 9 is 0.
"""

import torch
from torch.nn.functional import cross_entropy

from headway.models import GPT, GPTConfig
from headway.training import Loss, TrainingState, fit, repeated

torch.manual_seed(0)
sequences = (torch.randint(10, (64, 1)) + torch.arange(12)) % 10  # B T
model = GPT(GPTConfig(vocabulary=10, model_dim=32, num_heads=4, ffn_dim=64, num_layers=2))


def next_token(model: GPT, batch: torch.Tensor) -> Loss:
    """-sum_t log P(x_t+1 | x_1 ... x_t): a sum, and the number of its terms."""
    logits, targets = model(batch[:, :-1]), batch[:, 1:]
    total = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
    return Loss(total, total.detach(), targets.numel())


run = TrainingState(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
fit(run, repeated(sequences.split(16)), next_token, steps=100)

digits = [7, 8]
for _ in range(8):
    digits.append(int(model.eval()(torch.tensor([digits]))[0, -1].argmax()))
print(*digits)
