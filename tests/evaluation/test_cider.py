"""CIDEr-D, by hand."""

import math

import pytest
from torch.testing import assert_close

from headway.evaluation import cider_d, score_against_several, score_translations

OTHERS = ["a dog"]


def first(output, *references):
    """Of a picture beside one of which "a dog" was said: "a" then has no weight, all else ln 2."""
    found = cider_d([output, "a dog"], [references, OTHERS])
    assert found[1] == pytest.approx(5.0)  # of one and two words; there are no three
    return found[0]


def test_what_people_said_has_the_greatest_score_of_its_length():
    assert first("a cat", "a cat") == pytest.approx(5.0)
    assert first("A  Cat!", "a cat.") == pytest.approx(5.0)
    same = "the old cat sleeps here"
    assert cider_d([same, "a dog"], [[same], OTHERS])[0] == pytest.approx(10.0)


def test_words_of_all_pictures_have_no_weight():
    assert first("a", "a cat") == 0
    assert first("a dog", "a cat") == 0
    assert cider_d(["a cat"], [["a cat"]]) == [0.0]  # of one picture alone


def test_a_repeated_word_gains_nothing():
    # one word: min(2 ln 2, ln 2) ln 2 / (2 ln 2 . ln 2); two words: "cat cat" was not said
    assert first("cat cat", "a cat") == pytest.approx(10 / 4 * 0.5)


def test_another_length_costs_by_a_gauss_of_six_words():
    # one word: as said. two: "a a", in no reference and so of weight ln 2, and "a cat"
    wanted = 10 / 4 * (1 + 1 / math.sqrt(2)) * math.exp(-1 / 72)
    assert first("a a cat", "a cat") == pytest.approx(wanted)


def test_references_are_averaged_and_their_words_weighted_by_the_pictures_that_hold_them():
    assert first("a cat", "a cat", "a lion") == pytest.approx(2.5)
    # three pictures: "cat" stands in two, ln 1.5; "old" and "red" in one, ln 3
    found = cider_d(["old cat", "cat", "dog"], [["old cat"], ["red cat"], ["dog"]])
    cat, rare = math.log(1.5), math.log(3)
    assert found[0] == pytest.approx(5.0)
    one_word = cat * cat / (cat * math.hypot(cat, rare))
    assert found[1] == pytest.approx(10 / 4 * one_word * math.exp(-1 / 72))
    assert found[2] == pytest.approx(2.5)


def test_nothing_said_scores_nothing_and_what_cannot_be_scored_is_refused():
    assert first("", "a cat") == 0
    for outputs, references in (([], []), (["a"], []), (["a"], [[]])):
        with pytest.raises(ValueError):
            cider_d(outputs, references)


def test_bleu_and_chrf_take_several_references_some_of_which_are_missing():
    outputs = ["the old cat sleeps here", "a red dog runs there"]
    exact = score_against_several(outputs, [["no", outputs[0]], [outputs[1]]])
    assert_close(exact.bleu, 100.0)
    assert_close(exact.chrf, 100.0)
    one = score_against_several(outputs, [["the cat sleeps"], ["a dog runs"]])
    assert one == score_translations(outputs, ["the cat sleeps", "a dog runs"])
    assert "nrefs:1" in one.bleu_signature and 0 < one.bleu < 100
