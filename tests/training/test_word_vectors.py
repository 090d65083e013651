"""Objectives of word vectors: the loss, compared with a loop in float64."""

import math

import pytest
import torch
from torch.testing import assert_close

from headway.models import NextWord, WordsConfig, WordVectors
from headway.tasks.word_vectors.context_windows import BLOCK, WordBatch
from headway.tasks.word_vectors.model import (
    NegativeSampling,
    NextWordObjective,
    negative_sampling_sum,
)

V, D = 11, 5


def test_a_one_hot_row_times_the_matrix_is_the_row():
    model = NextWord(WordsConfig(kind="next-word", dim=D, vocabulary=V))
    words = torch.tensor([3, 0, 10, 3])
    assert torch.equal(model.hidden(words), model.one_hot(words))
    assert torch.equal(model.hidden(words)[0], model.vectors[3])
    assert_close(model(words), model.one_hot(words) @ model.output.weight.T)


def test_the_gradient_of_a_look_up_is_that_of_the_product():
    model = NextWord(WordsConfig(kind="next-word", dim=D, vocabulary=V)).double()
    words = torch.tensor([3, 0, 10, 3])
    gradients = []
    for embed in (model.hidden, model.one_hot):
        model.zero_grad()
        embed(words).pow(3).sum().backward()
        gradients.append(model.vectors.grad.clone())
    assert_close(*gradients)
    assert gradients[0][1].abs().sum() == 0  # a word that was not read has not moved


def loop(h, contexts, words, negatives):
    """The formula, one pair and one sampled word at a time."""
    targets, owner, sampled = words
    total = torch.zeros((), dtype=torch.float64)
    for target, b in zip(targets.tolist(), owner.tolist(), strict=True):
        total = total - torch.sigmoid(contexts[target] @ h[b]).log()
        row = sampled[b // BLOCK].tolist()
        for word in row:
            total = total - negatives / len(row) * torch.sigmoid(-contexts[word] @ h[b]).log()
    return total


def test_the_loss_and_its_gradient_equal_the_formulas():
    bags = BLOCK + 7  # two blocks, one of them not full
    words = (
        torch.randint(1, V, (150,)),
        torch.randint(0, bags, (150,)).sort().values,
        torch.randint(1, V, (2, 9)),
    )
    results = []
    for compute in (negative_sampling_sum, loop):
        torch.manual_seed(4)
        h = torch.randn(bags, D, dtype=torch.float64, requires_grad=True)
        contexts = torch.randn(V, D, dtype=torch.float64, requires_grad=True)
        total = compute(h, contexts, words, 5)
        total.backward()
        results.append((total.detach(), h.grad, contexts.grad))
    for value, expected in zip(*results, strict=True):
        assert_close(value, expected, rtol=0, atol=1e-10)


def test_the_loss_survives_extreme_scores_in_float32():
    words = (torch.tensor([1, 2]), torch.tensor([0, 1]), torch.ones(1, 64, dtype=torch.long))
    h = torch.tensor([[300.0], [-300.0]], requires_grad=True)
    total = negative_sampling_sum(h, torch.tensor([[0.0], [-5.0], [5.0]]), words, 5)
    total.backward()
    assert h.grad.isfinite().all()
    assert total.item() == pytest.approx(1500 + 1500 + 5 * 1500)


def test_a_bags_vector_is_the_mean_of_its_words():
    model = WordVectors(WordsConfig(kind="cbow", dim=D, vocabulary=V))
    bags = [[3], [1, 3, 3, 9], [10, 2]]
    means = model.hidden(torch.tensor([w for bag in bags for w in bag]), torch.tensor([0, 1, 5]))
    expected = torch.stack([torch.stack([model.vectors[w] for w in bag]).mean(0) for bag in bags])
    assert_close(means, expected)


def test_objectives_count_the_targets_that_they_sum():
    batch = WordBatch(
        torch.tensor([2, 5, 7]),
        torch.tensor([0, 1, 2]),
        torch.tensor([1, 4, 4, 8]),
        torch.tensor([0, 0, 2, 2]),
        torch.randint(1, V, (1, BLOCK)),
    )
    vectors = WordVectors(WordsConfig(dim=D, vocabulary=V))
    loss = NegativeSampling(5)(vectors, batch)
    assert loss.count == 4
    assert loss.total.item() == pytest.approx(4 * 6 * math.log(2))  # all scores start at 0
    next_word = NextWord(WordsConfig(kind="next-word", dim=D, vocabulary=V))
    single = WordBatch(batch.words, batch.starts, batch.targets[:3], batch.starts, batch.sampled)
    result = NextWordObjective()(next_word, single)
    expected = torch.nn.functional.cross_entropy(
        next_word(single.words), single.targets, reduction="sum"
    )
    assert result.count == 3
    assert_close(result.total, expected)
