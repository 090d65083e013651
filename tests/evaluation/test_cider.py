"""CIDEr-D, compared with values by hand."""

import math

import pytest
from torch.testing import assert_close

from headway.evaluation import score_against_several, score_translations
from headway.tasks.captioning.cider import cider_d

SECOND_IMAGE = ["a dog"]


def first(output, *references):
    """Score an image beside one with the reference "a dog": "a" has weight 0, other words ln 2."""
    scores = cider_d([output, "a dog"], [references, SECOND_IMAGE])
    assert scores[1] == pytest.approx(5.0)  # n-grams of one and two words only
    return scores[0]


def test_a_reference_has_the_highest_score_of_its_length():
    assert first("a cat", "a cat") == pytest.approx(5.0)
    assert first("A  Cat!", "a cat.") == pytest.approx(5.0)
    same = "the old cat sleeps here"
    assert cider_d([same, "a dog"], [[same], SECOND_IMAGE])[0] == pytest.approx(10.0)


def test_words_of_all_images_have_no_weight():
    assert first("a", "a cat") == 0
    assert first("a dog", "a cat") == 0
    assert cider_d(["a cat"], [["a cat"]]) == [0.0]  # the corpus has a single image


def test_a_repeated_word_does_not_raise_the_score():
    # one word: min(2 ln 2, ln 2) ln 2 / (2 ln 2 . ln 2); two words: "cat cat" is in no reference
    assert first("cat cat", "a cat") == pytest.approx(10 / 4 * 0.5)


def test_another_length_is_penalised_by_a_gaussian_of_six_words():
    # one word: as in the reference. two: "a a", in no reference and so of weight ln 2, and "a cat"
    expected = 10 / 4 * (1 + 1 / math.sqrt(2)) * math.exp(-1 / 72)
    assert first("a a cat", "a cat") == pytest.approx(expected)


def test_references_are_averaged_and_words_are_weighted_by_their_number_of_images():
    assert first("a cat", "a cat", "a lion") == pytest.approx(2.5)
    # three images: "cat" is in references of two, ln 1.5; "old" and "red" in one, ln 3
    scores = cider_d(["old cat", "cat", "dog"], [["old cat"], ["red cat"], ["dog"]])
    cat, rare = math.log(1.5), math.log(3)
    assert scores[0] == pytest.approx(5.0)
    one_word = cat * cat / (cat * math.hypot(cat, rare))
    assert scores[1] == pytest.approx(10 / 4 * one_word * math.exp(-1 / 72))
    assert scores[2] == pytest.approx(2.5)


def test_an_empty_output_scores_0_and_invalid_references_are_refused():
    assert first("", "a cat") == 0
    for outputs, references in (([], []), (["a"], []), (["a"], [[]])):
        with pytest.raises(ValueError):
            cider_d(outputs, references)


def test_bleu_and_chrf_take_several_references_some_of_which_are_missing():
    outputs = ["the old cat sleeps here", "a red dog runs there"]
    exact = score_against_several(outputs, [["no", outputs[0]], [outputs[1]]])
    assert_close(exact.bleu, 100.0)
    assert_close(exact.chrf, 100.0)
    scores = score_against_several(outputs, [["the cat sleeps"], ["a dog runs"]])
    assert scores == score_translations(outputs, ["the cat sleeps", "a dog runs"])
    assert "nrefs:1" in scores.bleu_signature and 0 < scores.bleu < 100
