"""Heads built by hand have a high score for their own pattern only."""

import pytest
import torch

from headway.inspection.head_patterns import head_pattern_scores, is_delimiter

TOKENS = ["<s>", "a", "b", ".", "a", "b", "c"]  # a b . a b c: "b" follows the second "a" too


def attending_to(keys):
    """Return one head in which each query attends to one key only."""
    weights = torch.zeros(1, len(keys), 7)
    for query, key in enumerate(keys):
        weights[0, query, key] = 1
    return weights


PATTERNS = {
    "previous token": [0, 0, 1, 2, 3, 4, 5],
    "self": [0, 1, 2, 3, 4, 5, 6],
    "first": [0, 0, 0, 0, 0, 0, 0],
    "delimiter": [0, 1, 1, 3, 3, 3, 3],
    "duplicate token": [0, 1, 2, 3, 1, 2, 3],
    "induction": [0, 1, 2, 3, 2, 3, 0],
}


@pytest.mark.parametrize("kind", PATTERNS)
def test_a_head_of_one_pattern_scores_one(kind):
    (scores,) = head_pattern_scores(attending_to(PATTERNS[kind]), TOKENS, own=True, causal=True)
    assert scores[kind] == pytest.approx(1) and scores["broad"] == pytest.approx(0)
    assert max(scores.values()) == pytest.approx(1)
    for other_kind in PATTERNS:
        (other_scores,) = head_pattern_scores(
            attending_to(PATTERNS[other_kind]), TOKENS, own=True, causal=True
        )
        assert other_kind == kind or other_scores[kind] < 0.7, f"{other_kind} classified as {kind}"


def test_uniform_attention_is_broad_and_scores_are_mean_weights():
    uniform = torch.ones(2, 7, 7).tril() / torch.arange(1, 8)[:, None]
    for scores in head_pattern_scores(uniform, TOKENS, own=True, causal=True):
        assert scores["broad"] == pytest.approx(1)
        assert scores["first"] == pytest.approx(sum(1 / n for n in range(2, 8)) / 6)
        assert scores["previous token"] == pytest.approx(sum(1 / n for n in range(2, 8)) / 6)
        assert scores["duplicate token"] == pytest.approx((1 / 5 + 1 / 6) / 2)
        assert scores["induction"] == pytest.approx((1 / 5 + 1 / 6) / 2)
        assert "next token" not in scores


def test_without_a_causal_mask_later_tokens_count_too():
    ahead = attending_to([1, 2, 3, 4, 5, 6, 6])
    (scores,) = head_pattern_scores(ahead, TOKENS, own=True)
    assert scores["next token"] == pytest.approx(1)
    (scores,) = head_pattern_scores(attending_to([0, 4, 5, 3, 1, 2, 6]), TOKENS, own=True)
    assert scores["duplicate token"] == pytest.approx(1)


def test_cross_attention_has_only_the_scores_that_are_defined_for_it():
    weights = torch.zeros(1, 2, 7)
    weights[0, :, 3] = 1
    (scores,) = head_pattern_scores(weights, TOKENS, own=False)
    assert set(scores) == {"broad", "first", "delimiter"}
    assert scores["delimiter"] == pytest.approx(1) and scores["first"] == 0


def test_patterns_that_the_tokens_cannot_show_are_left_out():
    (scores,) = head_pattern_scores(torch.ones(1, 1, 1), ["a"], own=True, causal=True)
    assert set(scores) == {"self"}
    (scores,) = head_pattern_scores(attending_to([0] * 7), list("abcdefg"), own=True)
    assert not {"duplicate token", "induction", "delimiter"} & set(scores)


def test_special_tokens_and_punctuation_are_delimiters():
    for token in (" .", "…", "[SEP]", "</s>", "<|endoftext|>", "»"):
        assert is_delimiter(token), token
    for token in ("a", " ", "", "<b", "a.", "[x]", "1"):
        assert not is_delimiter(token), token
