"""Scores of classes and of numbers, compared with their definitions."""

import math

import numpy as np
import pytest

from headway.evaluation import class_scores, confusion, number_scores

TRUE = [0, 0, 0, 0, 1, 1, 2, 2, 2, 4]
PREDICTED = [0, 0, 1, 2, 1, 0, 2, 2, 3, 4]


def test_class_scores_equal_their_definitions():
    scores = class_scores(PREDICTED, TRUE)
    assert scores["accuracy"] == pytest.approx(0.6)
    # class: precision, recall -> F1; 3 is predicted and never true, 4 is always correct
    f1 = [2 * 2 / (3 + 4), 2 * 1 / (2 + 2), 2 * 2 / (3 + 3), 0.0, 1.0]
    assert scores["macro_f1"] == pytest.approx(sum(f1) / 5)
    one_hot = [np.eye(5)[side] for side in (PREDICTED, TRUE)]
    f, t = (side - side.mean(0) for side in one_hot)
    assert scores["matthews"] == pytest.approx(
        (f * t).sum() / math.sqrt((f * f).sum() * (t * t).sum())
    )


def test_of_two_classes_matthews_is_the_correlation():
    predicted, true = [0, 1, 1, 1, 0, 1], [0, 1, 0, 1, 1, 1]
    expected = np.corrcoef(predicted, true)[0, 1]
    assert class_scores(predicted, true)["matthews"] == pytest.approx(expected)
    numbers = [[float(c) for c in side] for side in (predicted, true)]
    assert number_scores(*numbers)["pearson"] == pytest.approx(expected)
    assert class_scores(true, true)["matthews"] == pytest.approx(1.0)
    assert class_scores([1 - c for c in true], true)["matthews"] == pytest.approx(-1.0)


def test_constant_predictions_have_no_correlation():
    scores = class_scores([0] * 10, TRUE)
    assert scores["matthews"] == 0.0 and scores["accuracy"] == pytest.approx(0.4)
    assert number_scores([0.1] * 7, [*map(float, range(7))]) == {
        "pearson": 0.0,
        "spearman": 0.0,
        "mse": pytest.approx(np.square(np.arange(7) - 0.1).mean()),
    }


def test_numbers_are_scored_by_value_and_by_rank():
    predicted, true = [1.0, 2.0, 2.0, 8.0, 2.5], [0.5, 3.0, 4.0, 5.0, 3.0]
    scores = number_scores(predicted, true)
    assert scores["pearson"] == pytest.approx(np.corrcoef(predicted, true)[0, 1])
    ranks = [[1, 2.5, 2.5, 5, 4], [1, 2.5, 4, 5, 2.5]]
    assert scores["spearman"] == pytest.approx(np.corrcoef(ranks)[0, 1])
    assert scores["mse"] == pytest.approx((0.25 + 1 + 4 + 9 + 0.25) / 5)
    cubes, roots = [float(x**3) for x in range(6)], [float(x) for x in range(6)]
    assert number_scores(cubes, roots)["spearman"] == pytest.approx(1.0)


def test_lists_of_other_lengths_and_empty_ones_are_refused():
    for scores in (class_scores, number_scores):
        kind = int if scores is class_scores else float
        for predicted, true in (([kind(1)], [kind(1), kind(0)]), ([], [])):
            with pytest.raises(ValueError, match="must be equal and not 0"):
                scores(predicted, true)


def test_a_confusion_matrix_has_true_classes_in_rows_and_predicted_ones_in_columns():
    predicted, true = [0, 2, 2, 1, 0, 2], [0, 2, 1, 1, 1, 0]
    assert confusion(predicted, true, 4) == [[1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    with pytest.raises(ValueError, match="must be equal"):
        confusion([0], [0, 1], 2)
