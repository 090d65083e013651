"""Exact match, F1, ROUGE and character error rate: known values, plain twins, properties."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evaluation.text_overlap import (
    TEXT_METRICS,
    common_subsequence,
    edit_distance,
    rouge_l,
    rouge_n,
    rouge_words,
    score_texts,
)

TEXTS = st.text("ab c.é", max_size=12)
ITEMS = st.lists(st.sampled_from("abc"), max_size=80)


def values(outputs, references):
    return {name: sums.corpus() for name, sums in score_texts(outputs, references).items()}


def plain_subsequence(a, b):
    """The recursion of the definition."""

    @cache
    def length(i, j):
        if not i or not j:
            return 0
        if a[i - 1] == b[j - 1]:
            return length(i - 1, j - 1) + 1
        return max(length(i - 1, j), length(i, j - 1))

    return length(len(a), len(b))


def plain_distance(a, b):
    """The recursion of the definition."""

    @cache
    def distance(i, j):
        if not i or not j:
            return i + j
        change = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(change, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(a), len(b))


def test_values_computed_by_hand():
    # Lin 2004, section 3.1: the candidates share "police the gunman" and "the gunman" in order
    reference = "police killed the gunman"
    assert rouge_l("police kill the gunman", reference) == 3 / 4
    assert rouge_l("the gunman kill police", reference) == 2 / 4
    assert rouge_n("police kill the gunman", reference, 2) == 1 / 3
    assert rouge_n("the the the", "the cat", 1) == 2 / 5
    scores = values(["kitten", "The cat."], [["sitting"], ["a cat"]])
    assert scores["exact"] == 0
    assert scores["f1"] == pytest.approx(0.5)
    assert scores["cer"] == pytest.approx((3 + 4) / (7 + 5))
    assert tuple(scores) == TEXT_METRICS


def test_words_are_runs_of_letters_with_their_marks_and_digits():
    assert rouge_words("It's 5-to-1, snake_case") == ["it", "s", "5", "to", "1", "snake", "case"]
    assert rouge_words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert rouge_words("Élan vital") == ["élan", "vital"]
    assert rouge_words(" .,! ") == []


@given(ITEMS, ITEMS)
def test_rows_of_bits_give_the_lengths_of_the_recursions(a, b):
    assert common_subsequence(a, b) == plain_subsequence(a, b)
    assert edit_distance(a, b) == plain_distance(a, b)


@given(TEXTS.filter(bool), TEXTS)
def test_a_text_against_itself_is_perfect_and_no_order_of_arguments_matters(reference, output):
    same = values([reference], [[reference]])
    assert same["exact"] == 1 and same["cer"] == 0
    if rouge_words(reference):
        assert same["rouge1"] == same["rougeL"] == 1
    for metric in (rouge_l, lambda a, b: rouge_n(a, b, 2)):
        assert metric(output, reference) == metric(reference, output)
        assert 0 <= metric(output, reference) <= 1
    assert rouge_l(output, reference) <= rouge_n(output, reference, 1)


@given(TEXTS, TEXTS.filter(bool), TEXTS.filter(bool))
def test_a_further_reference_never_makes_an_output_worse(output, first, second):
    alone, both = values([output], [[first]]), values([output], [[first, second]])
    for name in TEXT_METRICS:
        assert both[name] <= alone[name] if name == "cer" else both[name] >= alone[name], name


def test_each_metric_is_a_sum_over_examples():
    outputs, references = ["a b", "c", "a"], [["a b"], ["d e"], ["a"]]
    sums = score_texts(outputs, references)
    for name in TEXT_METRICS:
        assert len(sums[name]) == 3
    assert values(outputs, references)["exact"] == pytest.approx(2 / 3)
    assert values(outputs, references)["cer"] == pytest.approx(3 / 7)


@pytest.mark.parametrize(("outputs", "references"), [([], []), (["a"], []), (["a"], [[]])])
def test_missing_references_are_refused(outputs, references):
    with pytest.raises(ValueError, match="a reference for each output"):
        score_texts(outputs, references)


def test_rouge_equals_the_package_rouge_score_on_ascii():
    package = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = package.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    pairs = [
        ("The fox sees a lemon-tree.", "A fox saw the lemon tree"),
        ("no_words in-common, at ALL 12", "12 words: no common; in all"),
        ("x", "y z"),
        ("", "y z"),
        ("a b a b a c", "b a b a b a a"),
    ]
    for output, reference in pairs:
        expected = scorer.score(reference, output)
        assert rouge_n(output, reference, 1) == pytest.approx(expected["rouge1"].fmeasure)
        assert rouge_n(output, reference, 2) == pytest.approx(expected["rouge2"].fmeasure)
        assert rouge_l(output, reference) == pytest.approx(expected["rougeL"].fmeasure)
