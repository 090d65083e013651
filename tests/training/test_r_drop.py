"""R-Drop: two passes, their cross-entropy and their divergence."""

import pytest
import torch
from torch.nn.functional import kl_div
from torch.testing import assert_close

from headway.tasks.translation.batches import TranslationBatch
from headway.tasks.translation.objective import RDropObjective, TranslationObjective, divergences
from tests.fixtures.zoo import MODELS, sources

SOURCE, KEYS = sources([[4, 5, 2], [6, 2]])
READ, TARGETS = torch.tensor([[1, 3, 4], [1, 5, 0]]), torch.tensor([[3, 4, 2], [5, 2, 0]])
BATCH = TranslationBatch(SOURCE, KEYS, READ, TARGETS, (0, 1))


@pytest.mark.parametrize("name", ["translator", "rnn", "translator concatenated positions"])
def test_without_dropout_it_is_the_cross_entropy_of_one_pass(name):
    model = MODELS[name].build()
    twice = RDropObjective(pad=0, smoothing=0.1, alpha=5.0)(model, BATCH)
    once = TranslationObjective(pad=0, smoothing=0.1)(model, BATCH)
    assert twice.count == once.count == 5
    assert_close(twice.total, once.total, rtol=1e-5, atol=1e-5)
    assert_close(twice.nats, once.nats, rtol=1e-5, atol=1e-5)


def test_the_divergence_is_the_sum_of_both_directions():
    first, second = torch.randn(2, 7, 5).log_softmax(-1)
    both = sum(
        kl_div(a, b, log_target=True, reduction="sum")
        for a, b in [(first, second), (second, first)]
    )
    assert_close(divergences(first, second), both)
    assert divergences(first, first) == 0


def test_with_dropout_it_has_the_terms_of_two_passes():
    model = MODELS["translator"].build().train()
    halves = []

    def loss(alpha):
        torch.manual_seed(3)
        return RDropObjective(pad=0, smoothing=0.0, alpha=alpha)(model, BATCH)

    handle = model.output.register_forward_hook(lambda m, i, output: halves.append(output))
    plain = loss(0.0)
    handle.remove()
    first, second = (half.log_softmax(-1) for half in halves)
    targets = TARGETS[TARGETS != 0][:, None]
    expected = -(first.gather(1, targets) + second.gather(1, targets)).sum() / 2
    assert_close(plain.total, expected)
    assert not torch.equal(first, second)
    assert_close(loss(8.0).total, expected + 2 * divergences(first, second))
    assert_close(loss(8.0).nats, expected.detach())


def test_the_divergence_falls_when_it_is_trained():
    def divergence_after(alpha):
        torch.manual_seed(0)
        model = MODELS["translator"].build().train()
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(15):
            optimizer.zero_grad()
            RDropObjective(pad=0, smoothing=0.0, alpha=alpha)(model, BATCH).total.backward()
            optimizer.step()
        return sum(divergence(model, seed) for seed in range(10))

    @torch.no_grad()
    def divergence(model, seed):
        totals = []
        for alpha in (4.0, 0.0):
            torch.manual_seed(seed)
            totals.append(RDropObjective(pad=0, smoothing=0.0, alpha=alpha)(model, BATCH).total)
        return totals[0] - totals[1]

    assert divergence_after(20.0) < 0.5 * divergence_after(0.0)
