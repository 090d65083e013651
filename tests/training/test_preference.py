"""The losses of preference learning and their gradients are those of the papers."""

import math

import numpy as np
import pytest
import torch

from headway.tasks.preference.data import PreferenceBatch
from headway.training import PreferenceConfig, PreferenceObjective, preference_losses
from headway.training.objectives.preference import (
    LOSSES,
    AnswerPairs,
    answer_log_probabilities,
    answer_pairs,
)
from tests.fixtures.dialogues import language_model

CHOSEN, REJECTED = [-3.1, -0.7, -12.0, -5.5], [-2.9, -4.2, -11.0, -5.5]
REFERENCE = [-3.0, -1.1, -9.0, -5.0], [-3.3, -4.0, -12.5, -5.25]
LENGTHS = [3, 1, 7, 4], [2, 5, 6, 4]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def expected(kind, config, number):
    """Return the loss of a pair, and its derivatives by the two log-probabilities.

    Written from the papers with plain floats: probabilities and odds, not their logarithms.
    """
    w, v = CHOSEN[number], REJECTED[number]
    n, m = LENGTHS[0][number], LENGTHS[1][number]
    d = (w - REFERENCE[0][number]) - (v - REFERENCE[1][number])
    beta, e = config.strength, config.smoothing
    if kind == "dpo":
        p = sigmoid(beta * d)
        slope = beta * (p - (1 - e))
        return -(1 - e) * math.log(p) - e * math.log(1 - p), slope, -slope
    if kind == "ipo":
        slope = 2 * (d - 1 / (2 * beta))
        return (d - 1 / (2 * beta)) ** 2, slope, -slope
    if kind == "simpo":
        p = sigmoid(beta / n * w - beta / m * v - config.gamma)
        return -math.log(p), -(1 - p) * beta / n, (1 - p) * beta / m
    good, bad = math.exp(w / n), math.exp(v / m)  # probabilities per token
    ratio = (good / (1 - good)) / (bad / (1 - bad))
    p = ratio / (1 + ratio)  # sigma(log ratio)
    loss = -w / n - beta * math.log(p)
    return (
        loss,
        -1 / n - beta * (1 - p) / (n * (1 - good)),
        beta * (1 - p) / (m * (1 - bad)),
    )


@pytest.mark.parametrize(
    "config",
    [
        PreferenceConfig(kind="dpo"),
        PreferenceConfig(kind="dpo", beta=0.5, smoothing=0.1),
        PreferenceConfig(kind="ipo", beta=0.2),
        PreferenceConfig(kind="simpo"),
        PreferenceConfig(kind="simpo", beta=2.5, gamma=0.3),
        PreferenceConfig(kind="orpo"),
        PreferenceConfig(kind="orpo", beta=0.7),
    ],
    ids=str,
)
def test_losses_and_gradients_are_those_of_the_papers(config):
    chosen = torch.tensor(CHOSEN, dtype=torch.float64, requires_grad=True)
    rejected = torch.tensor(REJECTED, dtype=torch.float64, requires_grad=True)
    constants = [torch.tensor(values) for values in LENGTHS]
    constants += [torch.tensor(values, dtype=torch.float64) for values in REFERENCE]
    losses = preference_losses(AnswerPairs(chosen, rejected, *constants), config)
    losses.sum().backward()
    for number in range(len(CHOSEN)):
        loss, by_chosen, by_rejected = expected(config.kind, config, number)
        assert losses[number].item() == pytest.approx(loss, rel=1e-10)
        assert chosen.grad[number].item() == pytest.approx(by_chosen, rel=1e-10)
        assert rejected.grad[number].item() == pytest.approx(by_rejected, rel=1e-10)


def test_a_certain_answer_has_a_finite_odds_ratio():
    certain = torch.zeros(1, requires_grad=True)
    length, other = torch.tensor([1]), torch.full((1,), -2.0)
    pair = AnswerPairs(certain, other, length, length, other, other)
    loss = preference_losses(pair, PreferenceConfig(kind="orpo"))
    loss.sum().backward()
    assert torch.isfinite(loss).all() and torch.isfinite(certain.grad).all()


def batch(bundle):
    """Two pairs with answers of different lengths, and their tokens."""
    answers = [([1, 5, 9], [7, 3]), ([2, 4], [8, 8, 6]), ([1, 5, 9], [6]), ([2, 4], [3, 1])]
    width = max(len(a) + len(b) for a, b in answers) - 1
    tokens, targets = np.zeros((4, width), np.int64), np.full((4, width), -1)
    for row, (prompt, answer) in enumerate(answers):
        ids = [*prompt, *answer]
        tokens[row, : len(ids) - 1] = ids[:-1]
        targets[row, len(prompt) - 1 : len(ids) - 1] = answer
    reference = torch.tensor([-9.0, -11.0, -8.0, -10.0])
    return answers, preferences(torch.tensor(tokens), torch.tensor(targets), reference, (0, 1))


def preferences(tokens, targets, reference, indices):
    return PreferenceBatch(tokens, targets, int((targets >= 0).sum()), reference, indices)


def test_the_log_probability_of_an_answer_is_the_sum_over_its_tokens():
    """The reference computes each answer alone, token by token."""
    bundle = language_model()
    model = bundle.model.double()
    answers, both = batch(bundle)
    log_p = answer_log_probabilities(model, both.tokens, both.targets)
    for row, (prompt, answer) in enumerate(answers):
        total, before = 0.0, prompt
        for token in answer:
            with torch.no_grad():
                total += model(torch.tensor([before]))[0, -1].log_softmax(-1)[token].item()
            before = [*before, token]
        assert log_p[row].item() == pytest.approx(total, abs=1e-12)
    pairs = answer_pairs(model, both)
    assert pairs.chosen_lengths.tolist() == [2, 3] and pairs.rejected_lengths.tolist() == [1, 2]
    assert pairs.margins[0].item() == pytest.approx((log_p[0] + 9 - log_p[2] - 8).item(), abs=1e-12)


@pytest.mark.parametrize("kind", LOSSES)
def test_pairs_together_have_the_loss_of_pairs_apart(kind):
    bundle = language_model()
    objective = PreferenceObjective(PreferenceConfig(kind=kind))
    model = bundle.model.double()
    _, both = batch(bundle)
    apart = [
        objective(
            model,
            preferences(both.tokens[i::2], both.targets[i::2], both.reference[i::2], (i,)),
        )
        for i in range(2)
    ]
    together = objective(model, both)
    assert together.count == 2
    assert together.total.item() == pytest.approx(sum(loss.total.item() for loss in apart))


@pytest.mark.parametrize("kind", LOSSES)
def test_every_objective_makes_the_better_answer_more_probable_than_the_worse(kind):
    bundle = language_model()
    model = bundle.model
    _, both = batch(bundle)
    with torch.no_grad():
        reference = answer_log_probabilities(model, both.tokens, both.targets)
    both = preferences(both.tokens, both.targets, reference, both.indices)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
    for _ in range(5):
        optimizer.zero_grad()
        PreferenceObjective(PreferenceConfig(kind=kind))(model, both).total.backward()
        optimizer.step()
    assert (answer_pairs(model, both).margins > 0).all()
