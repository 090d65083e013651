"""The loss of language modelling."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from headway.models import GPT, GPTConfig
from headway.tasks.language_modeling.packing import TextBatch
from headway.training import Loss, TextObjective

SMALL = GPTConfig(model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, max_length=9, vocabulary=11)


def rows(seed: int = 0, count: int = 4, length: int = 7) -> TextBatch:
    """Sequences with some ignored targets."""
    torch.manual_seed(seed)
    ids = torch.randint(0, 11, (count, length + 1))
    targets = ids[:, 1:].clone()
    targets[0, 2:] = -1
    targets[-1, 3] = -1
    return TextBatch(ids[:, :-1], targets, None, ())


def gradients(model: GPT, *losses: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    sum(losses).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def plain(model: GPT, batch: TextBatch) -> Tensor:
    logits = model(batch.tokens).flatten(0, 1)
    return F.cross_entropy(logits, batch.targets.flatten(), ignore_index=-1, reduction="sum")


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_equals_torchs_over_the_targets(tied):
    model, batch = GPT(replace(SMALL, tie_output=tied)), rows()
    loss = TextObjective()(model, batch)
    assert isinstance(loss, Loss) and loss.count == 4 * 7 - 5 - 1
    expected = plain(model, batch)
    assert_close(loss.total, expected, rtol=1e-6, atol=0)
    assert_close(loss.nats, expected.detach(), rtol=1e-6, atol=0)
    ours, theirs = gradients(model, loss.total), gradients(model, plain(model, batch))
    for name, gradient in theirs.items():
        assert_close(ours[name], gradient, rtol=0, atol=1e-5)


def test_single_sequences_give_the_gradient_of_the_batch():
    model, batch = GPT(SMALL), rows()
    parts = [
        TextBatch(batch.tokens[i : i + 1], batch.targets[i : i + 1], None, ()) for i in range(4)
    ]
    losses = [TextObjective()(model, part) for part in parts]
    whole = TextObjective()(model, batch)
    assert sum(loss.count for loss in losses) == whole.count
    expected = gradients(model, whole.total)
    accumulated = gradients(model, *(loss.total for loss in losses))
    for name, gradient in expected.items():
        assert_close(accumulated[name], gradient, rtol=0, atol=1e-5)


def test_ignored_targets_have_no_loss():
    model, batch = GPT(SMALL), rows()
    nothing = TextBatch(batch.tokens, torch.full_like(batch.targets, -1), None, ())
    loss = TextObjective()(model, nothing)
    assert loss.count == 0 and loss.total.item() == 0
    assert not any(gradient.any() for gradient in gradients(model, loss.total).values())


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_packed_documents_give_the_same_gradient_as_single_documents(positions):
    model = GPT(replace(SMALL, positions=positions))
    lengths = ((3, 4), (7,), (1, 5, 1), (2, 5))
    batch = replace(rows(), lengths=lengths)
    alone = [
        TextBatch(tokens[None], targets[None], None, ())
        for row, (ids, row_targets) in enumerate(zip(batch.tokens, batch.targets, strict=True))
        for tokens, targets in zip(
            ids.split(lengths[row]), row_targets.split(lengths[row]), strict=True
        )
    ]
    packed, losses = (
        TextObjective()(model, batch),
        [TextObjective()(model, document) for document in alone],
    )
    assert sum(loss.count for loss in losses) == packed.count
    expected = gradients(model, *(loss.total for loss in losses))
    ours = gradients(model, packed.total)
    for name, gradient in expected.items():
        assert_close(ours[name], gradient, rtol=0, atol=1e-5)
    unpacked = TextObjective()(model, replace(batch, lengths=None))
    assert abs(unpacked.total.item() - packed.total.item()) > 1e-4
