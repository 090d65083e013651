"""Nearest neighbours, linear classifiers and spread, on vectors with known results."""

import math

import pytest
import torch

from headway.tasks.self_distillation.task import knn_accuracy, linear_accuracy, spread


def test_the_nearest_vote_with_the_weight_of_their_cosines():
    known = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.8, -0.6], [-1.0, 0.0]])
    classes = torch.tensor([0, 1, 1, 2])
    queries, true = torch.tensor([[5.0, 0.0]]), torch.tensor([0])
    assert knn_accuracy(known, classes, queries, true, k=1) == 1
    # 3 neighbours: e^(1/t) against 2 e^(0.8/t): the single one wins while 0.2 / t > ln 2
    cut = 0.2 / math.log(2)
    assert knn_accuracy(known, classes, queries, true, 3, temperature=cut * 0.9) == 1
    assert knn_accuracy(known, classes, queries, true, 3, temperature=cut * 1.1) == 0
    assert (
        knn_accuracy(known, classes, queries, true, k=99) == 1
    )  # k is at most the number of vectors


def test_many_queries_are_classified_in_chunks():
    torch.manual_seed(0)
    known, classes = torch.randn(40, 5), torch.randint(3, (40,))
    queries = known.repeat(30, 1)
    assert knn_accuracy(known, classes, queries, classes.repeat(30), k=1) == 1.0
    shifted = (classes + 1) % 3
    assert knn_accuracy(known, classes, queries, shifted.repeat(30), k=1) == 0.0
    with pytest.raises(ValueError, match="must not be 0"):
        knn_accuracy(known[:0], classes[:0], queries, queries[:, 0].long())


def test_a_linear_classifier_separates_linear_classes_only():
    torch.manual_seed(0)
    x = torch.randn(300, 4) * torch.tensor([1.0, 1.0, 1.0, 100.0])
    line, ring = (x[:, 0] > 0.3).long(), ((x[:, 0] * x[:, 1]) > 0).long()
    assert linear_accuracy(x[:200], line[:200], x[200:], line[200:]) > 0.95
    assert linear_accuracy(x[:200], ring[:200], x[200:], ring[200:]) < 0.7
    a = linear_accuracy(x[:200], line[:200], x[200:], line[200:])
    assert a == linear_accuracy(x[:200], line[:200], x[200:], line[200:])


def test_spread_is_0_for_equal_vectors_and_1_for_random_directions():
    torch.manual_seed(0)
    assert spread(torch.ones(50, 8) * 3) == pytest.approx(0, abs=1e-6)
    assert spread(torch.randn(5000, 64)) == pytest.approx(1, abs=0.02)
