"""Scores of spans and of answers, by the published rules."""

import pytest

from headway.evaluation.squad import plain_words, score_answers, word_f1
from headway.tasks.tagging.spans import score_spans


def scores(predicted, true):
    result = score_spans([x.split() for x in predicted], [x.split() for x in true])
    return result.correct, result.predicted, result.true


def test_a_span_is_correct_only_with_both_borders_and_the_label():
    true = ["B-x I-x O B-y"]
    assert scores(true, true) == (2, 2, 2)
    assert scores(["B-x O O B-y"], true) == (1, 2, 2)  # too short
    assert scores(["B-x I-x I-x B-y"], true) == (1, 2, 2)  # too long
    assert scores(["B-x B-x O B-y"], true) == (1, 3, 2)  # split in two
    assert scores(["B-x I-x O B-x"], true) == (1, 2, 2)  # another label
    assert scores(["O I-x O B-y"], true) == (1, 2, 2)  # the other half
    assert scores(["I-x I-x O I-y"], true) == (2, 2, 2)  # without B, and still the same spans
    assert scores(["O O O O"], true) == (0, 0, 2)


def test_scores_are_over_all_sentences_together():
    result = score_spans(
        [["B-x", "O"], ["B-y", "B-y", "B-y"]],
        [["B-x", "O"], ["O", "B-y", "O"]],
    )
    assert (result.precision, result.recall) == (2 / 4, 2 / 2)
    assert result.f1 == pytest.approx(
        2 * 0.5 * 1 / 1.5
    )  # the mean of the sentences' would be 3 / 4
    nothing = score_spans([["O"]], [["O"]])
    assert (nothing.precision, nothing.recall, nothing.f1) == (0, 0, 0)


def test_tags_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 tags for 1 words"):
        score_spans([["O", "O"]], [["O"]])
    with pytest.raises(ValueError, match="must be equal"):
        score_spans([], [["O"]])


def test_answers_are_compared_without_case_punctuation_articles_and_blanks():
    assert plain_words("The  «Fox», a THEATRE's\tan-swer.") == ["«fox»", "theatres", "answer"]
    for answer in ("the Lake Zürich", "lake  zürich!", "(A lake Zürich)"):
        assert score_answers([answer], [["Lake Zürich"]]).exact == 1
    assert score_answers(["lake Zurich"], [["Lake Zürich"]]).exact == 0


def test_f1_counts_shared_words_as_often_as_both_have_them():
    assert word_f1("big big fox", "big fox fox") == pytest.approx(2 / 3)
    assert word_f1("fox", "red fox den") == pytest.approx(2 * 1 * (1 / 3) / (1 + 1 / 3))
    assert word_f1("owl", "fox") == word_f1("the", "fox") == word_f1("", "") == 0


def test_the_best_of_several_answers_counts():
    result = score_answers(["red fox", "a"], [["the den", "fox", "Red fox."], ["owl"]])
    assert (result.exact, result.f1, result.questions) == (0.5, 0.5, 2)
    result = score_answers(["red fox"], [["den", "old fox", "owl"]])
    assert (result.exact, result.f1) == (0, 0.5)
    with pytest.raises(ValueError, match="not 0"):
        score_answers([], [])
