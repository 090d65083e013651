"""Beam search compared with exhaustive search, and its edge cases."""

from dataclasses import replace

import pytest
import torch

from headway.base.errors import DataError
from headway.decoding import Forbidden, Limits, length_penalty
from tests.fixtures.exhaustive import LONGEST, WORDS, scores_of_all_outputs, small_model
from tests.fixtures.searches import beam_search, greedy_search
from tests.fixtures.zoo import BOS, EOS, MODELS, PAD, limits, some_rows


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_a_beam_as_wide_as_all_prefixes_is_exhaustive_search(seed, alpha):
    model, source = small_model(seed), torch.tensor([[3, 5, 4, 2]])
    expected = scores_of_all_outputs(model, source, alpha)[:5]
    limit = Limits(BOS, EOS, [LONGEST], [Forbidden([[PAD], [BOS]])])
    hypotheses = beam_search(
        model, (source, None), limit, beam=len(WORDS) ** LONGEST, length_penalty=alpha, num_best=5
    )
    assert [h.tokens for h in hypotheses[0]] == [words for _, words in expected]
    for hypothesis, (score, _) in zip(hypotheses[0], expected, strict=True):
        assert hypothesis.score == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_beam_of_one_is_greedy_or_better(name):
    """A beam also keeps a second-best ending, whose score may be higher in the end."""
    family = MODELS[name]
    model, rows = family.build(), some_rows(6, seed=3)
    greedy = greedy_search(model, family.inputs(rows), limits(rows))
    beam = beam_search(model, family.inputs(rows), limits(rows), beam=1, length_penalty=0.0)
    for hypothesis, (best, *_) in zip(greedy, beam, strict=True):
        shared = min(len(hypothesis.tokens), len(best.tokens))
        assert hypothesis.tokens[:shared] == best.tokens[:shared]
        if hypothesis.finished:  # greedy search reports a truncated output; the beam forces an end
            assert best.log_probability >= hypothesis.log_probability - 1e-4


def test_a_wider_beam_has_no_worse_score_in_these_models():
    scores = []
    for width in (1, 3, 9, 81):
        limit = Limits(BOS, EOS, [LONGEST], [Forbidden([[PAD], [BOS]])])
        hypotheses = beam_search(
            small_model(1), (torch.tensor([[3, 4, 2]]), None), limit, beam=width
        )
        scores.append(hypotheses[0][0].score)
    assert scores == sorted(scores)


@torch.no_grad()
def test_log_probabilities_are_the_models_own():
    family = MODELS["translator"]
    model, rows = family.build(), some_rows(5, seed=8)
    hypotheses = beam_search(
        model, family.inputs(rows), limits(rows), beam=4, num_best=3, length_penalty=0.6
    )
    for row, best in zip(rows, hypotheses, strict=True):
        for h in best:
            logits = family.full(model, [row], torch.tensor([[BOS, *h.tokens]]))[0].double()
            logits[:, [PAD, BOS]] = -torch.inf
            log_p = logits.log_softmax(-1)
            total = sum(float(log_p[t, w]) for t, w in enumerate((*h.tokens, EOS)))
            assert h.log_probability == pytest.approx(total, abs=1e-4)
            assert h.score == pytest.approx(
                total / length_penalty(len(h.tokens) + 1, 0.6), abs=1e-4
            )


@pytest.mark.parametrize("width", [1, 4, 50])
def test_length_zero_and_a_beam_wider_than_the_vocabulary(width):
    family = MODELS["translator"]
    model, rows = family.build(), some_rows(3)
    nothing = beam_search(
        model, family.inputs(rows), replace(limits(rows), max_lengths=[0] * 3), beam=width
    )
    assert [best[0].tokens for best in nothing] == [()] * 3
    some = beam_search(
        model, family.inputs(rows), replace(limits(rows), max_lengths=[1, 4, 2]), beam=width
    )
    assert all(len(best[0].tokens) <= n for best, n in zip(some, [1, 4, 2], strict=True))


def test_greedy_search_stops_at_the_limit_of_each_row():
    family = MODELS["translator"]
    model, rows = family.build(), some_rows(4)
    model.output.weight.data[EOS] = 0
    model.output.weight.data[5] *= 50  # would generate 5 nearly for ever
    short = replace(limits(rows), max_lengths=[0, 1, 5, 3])
    hypotheses = greedy_search(model, family.inputs(rows), short)
    assert all(len(h.tokens) <= n for h, n in zip(hypotheses, [0, 1, 5, 3], strict=True))
    assert any(not h.finished for h in hypotheses)


def test_impossible_beams_are_refused():
    family = MODELS["translator"]
    rows = some_rows(1)
    for width, num_best in ((0, 1), (2, 3), (3, 0)):
        with pytest.raises(ValueError, match="num_best"):
            beam_search(
                family.build(), family.inputs(rows), limits(rows), beam=width, num_best=num_best
            )


def test_the_length_penalty_is_the_papers():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.0) == 1.0


def test_groups_without_diversity_have_the_hypotheses_of_one_group():
    family = MODELS["gpt"]
    model, rows = family.build(), some_rows(4, seed=4)
    one_group = beam_search(model, family.inputs(rows), limits(rows), beam=2, num_best=2)
    two_groups = beam_search(
        model, family.inputs(rows), limits(rows), beam=4, num_best=2, beam_groups=2
    )
    assert [[h.tokens for h in best] for best in two_groups] == [
        [h.tokens for h in best] for best in one_group
    ]


@torch.no_grad()
def test_groups_with_diversity_differ_and_keep_the_models_log_probabilities():
    family = MODELS["gpt"]
    model, rows = family.build(), some_rows(4, seed=4)
    options = {"beam": 3, "num_best": 3, "beam_groups": 3}
    hypotheses = beam_search(model, family.inputs(rows), limits(rows), diversity=50.0, **options)
    single = beam_search(model, family.inputs(rows), limits(rows), beam=1)
    for i, (best, (first,)) in enumerate(zip(hypotheses, single, strict=True)):
        first_tokens = [h.tokens[0] for h in best if h.tokens]
        assert len(set(first_tokens)) == len(first_tokens), "each group begins with its own token"
        assert first.tokens in {h.tokens for h in best}
        for h in best:
            read = torch.tensor([[BOS, *h.tokens]])
            logits = family.full(model, [rows[i]], read)[0].double()
            logits[:, [PAD, BOS]] = -torch.inf
            log_p = logits.log_softmax(-1)
            total = sum(float(log_p[t, w]) for t, w in enumerate((*h.tokens, EOS)))
            assert h.log_probability == pytest.approx(total, abs=1e-4)


def test_groups_must_share_the_beams_evenly():
    family = MODELS["gpt"]
    rows = some_rows(1)
    with pytest.raises(ValueError, match="beam_groups=2"):
        beam_search(family.build(), family.inputs(rows), limits(rows), beam=3, beam_groups=2)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("width", [1, 4])
def test_logits_that_are_not_finite_end_the_search_with_an_error(number, width):
    model = small_model(0)
    with torch.no_grad():
        model.output.weight[4] = number
    source = torch.tensor([[3, 4, EOS]])
    with pytest.raises(DataError, match="not finite"):
        if width == 1:
            greedy_search(model, (source, None), limits([LONGEST]))
        else:
            beam_search(model, (source, None), limits([LONGEST]), beam=width)
