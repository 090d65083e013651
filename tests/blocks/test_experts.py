"""Mixtures of experts: the sum of the chosen experts, the balance loss, the recorded routing."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.attention import Documents
from headway.blocks import (
    Experts,
    FeedForward,
    GatedFeedForward,
    MixtureOfExperts,
    Router,
    balance_loss,
    record_routing,
)
from headway.models import GPT, GPTConfig
from headway.models.cost import formula_parameters, parameters
from headway.tasks.language_modeling.packing import TextBatch
from headway.training.objectives.language_modeling import TextObjective

CONFIG = GPTConfig(
    model_dim=8, num_heads=2, ffn_dim=12, num_layers=3, vocabulary=11, experts=Experts(total=4)
)


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
@pytest.mark.parametrize("chosen", [1, 2, 5])
@pytest.mark.parametrize("sums_to_1", [False, True])
@pytest.mark.parametrize("has_shared", [False, True])
def test_the_output_is_the_weighted_sum_of_the_chosen_experts(kind, chosen, sums_to_1, has_shared):
    torch.manual_seed(0)
    experts = [kind(4, 6) for _ in range(5)]
    shared = kind(4, 3) if has_shared else None
    mixture = MixtureOfExperts(Router(4, 5, chosen, sums_to_1), experts, shared).double()
    x = torch.randn(2, 7, 4, dtype=torch.float64, requires_grad=True)
    probabilities = mixture.router.project(x).float().softmax(-1).double()
    limit = probabilities.sort(-1, descending=True).values[..., chosen - 1 : chosen]
    weights = probabilities.where(probabilities >= limit, 0.0)
    weights = weights / weights.sum(-1, keepdim=True) if sums_to_1 else weights
    expected = sum(expert(x) * weights[..., n, None] for n, expert in enumerate(experts))
    if has_shared:
        expected = expected + mixture.shared_gate(x).sigmoid() * shared(x)
    assert_close(mixture(x), expected, rtol=1e-6, atol=1e-7)
    inputs = [x, mixture.router.project.weight]
    first = torch.autograd.grad(mixture(x).square().sum(), inputs)
    second = torch.autograd.grad(expected.square().sum(), inputs)
    assert_close(first, second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chosen", [1, 2])
def test_the_balance_loss_is_1_for_equal_loads_and_the_number_of_experts_for_one(chosen):
    real = torch.ones(4, dtype=torch.bool)
    equal = torch.eye(4).roll(1, 0) * 0.6 + torch.eye(4) * 0.4
    assert balance_loss(equal, chosen, real).item() == pytest.approx(1.0)
    one = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).expand(4, 4)
    assert balance_loss(one, 1, real).item() == pytest.approx(4.0)


def test_the_balance_loss_does_not_count_padding_and_pushes_away_from_the_busiest_expert():
    logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0], [0.0, 3.0]], requires_grad=True)
    real = torch.tensor([True, True, False, False])
    loss = balance_loss(logits.softmax(-1), 1, real)
    assert_close(loss, balance_loss(logits[:2].softmax(-1), 1, real[:2]))
    assert loss > 1.5 > balance_loss(logits.softmax(-1), 1, torch.ones_like(real))
    (grad,) = torch.autograd.grad(loss, logits)
    assert bool((grad[:2, 0] > 0).all()) and bool((grad[2:] == 0).all())
    assert balance_loss(logits.softmax(-1), 1, torch.zeros_like(real)) == 0


def batch_of(tokens, targets):
    return TextBatch(tokens=tokens, targets=targets, lengths=None, indices=(0, 1))


def test_the_loss_of_training_has_the_balance_of_the_predicted_tokens_and_nats_do_not():
    torch.manual_seed(0)
    model = GPT(CONFIG)
    tokens = torch.randint(0, 11, (2, 6))
    targets = torch.randint(0, 11, (2, 6))
    targets[1, 3:] = -1
    loss = TextObjective()(model, batch_of(tokens, targets))
    with record_routing(model) as routing:
        model(tokens)
    assert [*routing] == [f"decoder.blocks.{n}.feedforward" for n in range(3)]
    assert all(p.shape == (12, 4) for p in routing.values())
    real = (targets != -1).flatten()
    balance = sum(balance_loss(p, 2, real) for p in routing.values()) / 3
    assert_close(loss.total, loss.nats + 0.01 * 9 * balance)
    without = replace(CONFIG, experts=replace(CONFIG.experts, balance=0.0))
    model.config = without
    assert_close(TextObjective()(model, batch_of(tokens, targets)).total, loss.nats)


def test_packed_documents_with_experts_are_computed_as_if_they_were_alone():
    torch.manual_seed(0)
    model = GPT(replace(CONFIG, positions="rotary")).eval()
    tokens = torch.randint(0, 11, (1, 7))
    packed = model(tokens, Documents([[4, 3]]))
    alone = torch.cat([model(tokens[:, :4]), model(tokens[:, 4:])], 1)
    assert_close(packed, alone, rtol=1e-5, atol=1e-6)


def test_a_token_costs_what_its_experts_cost_and_all_experts_are_parameters():
    dense, mixed = GPTConfig.sizes["modern-mini"], GPTConfig.sizes["modern-mini-moe"]
    plain = GPTConfig(**dense)
    experts = Experts(
        total=mixed["experts.total"],
        chosen=mixed["experts.chosen"],
        ffn_dim=mixed["experts.ffn_dim"],
    )
    config = replace(plain, experts=experts)
    routers = 6 * 8 * 384
    assert parameters(config).multiplied == parameters(plain).multiplied + routers
    extra = 6 * 3 * 384 * 3 * 1024  # eight experts of half the width are four times as much
    assert parameters(config).total == parameters(plain).total + extra + routers
    assert formula_parameters(config) == formula_parameters(plain) + extra


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": ""}, "must be letters of e, d"),
        ({"layers": "ex"}, "must be letters of e, d"),
        ({"chosen": 5}, "must be at most"),
    ],
)
def test_experts_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Experts(**{"total": 4, **changes})
