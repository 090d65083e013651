"""Heads made by hand get the kind that they are, and no other."""

import pytest
import torch

from headway.inspection.head_patterns import head_pattern_scores, is_delimiter

TOKENS = ["<s>", "a", "b", ".", "a", "b", "c"]  # a b . a b c: what follows a second "a" is "b"


def picks(places):
    """One head that looks at one place for each query."""
    weights = torch.zeros(1, len(places), 7)
    for query, key in enumerate(places):
        weights[0, query, key] = 1
    return weights


MADE = {
    "previous token": [0, 0, 1, 2, 3, 4, 5],
    "self": [0, 1, 2, 3, 4, 5, 6],
    "first": [0, 0, 0, 0, 0, 0, 0],
    "delimiter": [0, 1, 1, 3, 3, 3, 3],
    "duplicate token": [0, 1, 2, 3, 1, 2, 3],
    "induction": [0, 1, 2, 3, 2, 3, 0],
}


@pytest.mark.parametrize("kind", MADE)
def test_a_head_that_is_of_one_kind_scores_one(kind):
    (found,) = head_pattern_scores(picks(MADE[kind]), TOKENS, own=True, causal=True)
    assert found[kind] == pytest.approx(1) and found["broad"] == pytest.approx(0)
    assert max(found.values()) == pytest.approx(1)
    for other in MADE:
        (wrong,) = head_pattern_scores(picks(MADE[other]), TOKENS, own=True, causal=True)
        assert other == kind or wrong[kind] < 0.7, f"{other} taken for {kind}"


def test_even_attention_is_broad_and_scores_are_means_of_shares():
    even = torch.ones(2, 7, 7).tril() / torch.arange(1, 8)[:, None]
    for found in head_pattern_scores(even, TOKENS, own=True, causal=True):
        assert found["broad"] == pytest.approx(1)
        assert found["first"] == pytest.approx(sum(1 / n for n in range(2, 8)) / 6)
        assert found["previous token"] == pytest.approx(sum(1 / n for n in range(2, 8)) / 6)
        assert found["duplicate token"] == pytest.approx((1 / 5 + 1 / 6) / 2)
        assert found["induction"] == pytest.approx((1 / 5 + 1 / 6) / 2)
        assert "next token" not in found


def test_without_a_causal_mask_later_tokens_count_too():
    ahead = picks([1, 2, 3, 4, 5, 6, 6])
    (found,) = head_pattern_scores(ahead, TOKENS, own=True)
    assert found["next token"] == pytest.approx(1)
    (found,) = head_pattern_scores(picks([0, 4, 5, 3, 1, 2, 6]), TOKENS, own=True)
    assert found["duplicate token"] == pytest.approx(1)


def test_between_two_sides_only_what_has_a_meaning_is_scored():
    weights = torch.zeros(1, 2, 7)
    weights[0, :, 3] = 1
    (found,) = head_pattern_scores(weights, TOKENS, own=False)
    assert set(found) == {"broad", "first", "delimiter"}
    assert found["delimiter"] == pytest.approx(1) and found["first"] == 0


def test_patterns_that_the_tokens_cannot_show_are_left_out():
    (found,) = head_pattern_scores(torch.ones(1, 1, 1), ["a"], own=True, causal=True)
    assert set(found) == {"self"}
    (found,) = head_pattern_scores(picks([0] * 7), list("abcdefg"), own=True)
    assert not {"duplicate token", "induction", "delimiter"} & set(found)


def test_marks_and_punctuation_are_delimiters():
    for token in (" .", "…", "[SEP]", "</s>", "<|endoftext|>", "»"):
        assert is_delimiter(token), token
    for token in ("a", " ", "", "<b", "a.", "[x]", "1"):
        assert not is_delimiter(token), token
