"""Guided alignment: the cross-entropy of one head with the gold alignment."""

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.attention import record_attention
from headway.base.errors import UsageError
from headway.tasks.translation.batches import TranslationBatch
from headway.tasks.translation.objective import (
    GuidedAlignmentObjective,
    RDropObjective,
    TranslationObjective,
    alignment_loss,
)
from headway.transforms import recompute
from tests.fixtures.zoo import MODELS, sources

SOURCE, KEYS = sources([[4, 5, 2], [6, 2]])
READ, TARGETS = torch.tensor([[1, 3, 4], [1, 5, 0]]), torch.tensor([[3, 4, 2], [5, 2, 0]])
GOLD = torch.zeros(2, 3, 3)
GOLD[0, 0, :2] = 0.5
GOLD[0, 1, 1] = GOLD[1, 0, 0] = 1.0
BATCH = TranslationBatch(SOURCE, KEYS, READ, TARGETS, (0, 1), alignment=GOLD)
PLAIN = TranslationObjective(pad=0, smoothing=0.1)
LAYERS = {"translator": "decoder.blocks.1.cross", "rnn": "decoder.readout.cross"}


@pytest.mark.parametrize(("name", "layer"), LAYERS.items())
def test_the_loss_is_that_of_translation_and_the_cross_entropy_of_the_first_head(name, layer):
    model = MODELS[name].build()
    with record_attention(model) as maps:
        plain = PLAIN(model, BATCH)
    weights = torch.cat(maps[layer], dim=2)[:, 0]
    expected = 0.0
    for row in range(2):
        for t in range(3):
            for s in range(3):
                if GOLD[row, t, s]:
                    expected -= float(GOLD[row, t, s]) * math.log(float(weights[row, t, s]))
    loss = GuidedAlignmentObjective(PLAIN, layer, 0.3)(model, BATCH)
    assert loss.count == plain.count
    assert_close(loss.nats, plain.nats)
    assert_close(loss.total, plain.total + 0.3 * expected, rtol=1e-5, atol=1e-5)


def test_source_and_target_are_not_interchangeable():
    turned = replace(BATCH, alignment=GOLD.transpose(1, 2).contiguous())
    model = MODELS["translator"].build()
    objective = GuidedAlignmentObjective(PLAIN, LAYERS["translator"], 1.0)
    assert not torch.isclose(objective(model, BATCH).total, objective(model, turned).total)


def test_only_the_first_head_is_guided_and_no_weight_is_guided_where_there_is_no_link():
    attention = torch.rand(1, 2, 3, 3).softmax(-1).requires_grad_()
    alignment_loss(attention, GOLD).backward()
    assert torch.equal(attention.grad[0] != 0, GOLD != 0)


def test_with_r_drop_it_is_the_mean_of_two_passes():
    model, layer = MODELS["translator"].build(), LAYERS["translator"]
    once = GuidedAlignmentObjective(PLAIN, layer, 2.0)(model, BATCH)
    twice = GuidedAlignmentObjective(RDropObjective(0, 0.1, 5.0), layer, 2.0)(model, BATCH)
    assert_close(twice.total, once.total, rtol=1e-5, atol=1e-5)


def test_a_weight_of_0_has_a_finite_loss_and_a_batch_without_alignment_is_refused():
    assert alignment_loss(torch.zeros(1, 2, 3, 3), GOLD).isfinite()
    with pytest.raises(ValueError, match="needs a batch with an alignment"):
        GuidedAlignmentObjective(PLAIN, LAYERS["translator"], 1.0)(
            MODELS["translator"].build(), replace(BATCH, alignment=None)
        )


def test_a_model_that_recomputes_its_attention_is_refused_in_training():
    model = recompute(MODELS["translator"].build())
    objective = GuidedAlignmentObjective(PLAIN, LAYERS["translator"], 1.0)
    with pytest.raises(UsageError, match="the blocks of this Translator recompute them"):
        objective(model, BATCH)
    with torch.no_grad():
        assert objective(model, BATCH).total.isfinite()
