"""The coverage penalty, compared with all outputs; the certain part of a beam search."""

import random

import pytest
import torch

from headway.attention import record_attention
from headway.base.errors import UsageError
from headway.decoding import BeamSettings, length_penalty, stream_beam
from tests.fixtures.exhaustive import LONGEST, WORDS, scores_of_all_outputs, small_model
from tests.fixtures.searches import beam_search
from tests.fixtures.zoo import BOS, EOS, MODELS, limits, some_rows

WITH_CROSS = [
    name for name in MODELS if not name.startswith("gpt") and not name.endswith("without attention")
]


def log_coverage(model, source, words):
    """Compute sum_i log(min(sum_t a_ti, 1)) in one pass over the whole output."""
    with record_attention(model, ["decoder.blocks.0.cross"]) as maps:
        model(source, torch.tensor([[BOS, *words]]))
    ((weights,),) = maps.values()
    return weights.mean(1).sum(1).clamp(1e-6, 1).log().sum().item()


@pytest.mark.turns(100)
@pytest.mark.parametrize("seed", range(500))
@torch.no_grad()
def test_a_beam_as_wide_as_all_prefixes_is_exhaustive_search_with_coverage(seed):
    generator = random.Random(seed)
    model, source = small_model(seed % 8), torch.tensor([generator.choices(WORDS, k=4)])
    alpha, weight = generator.choice([0.0, 0.6, 1.0]), generator.choice([0.2, 1.0, 3.0])
    scored = [
        (
            total / length_penalty(len(words) + 1, alpha)
            + weight * log_coverage(model, source, words),
            words,
        )
        for total, words in scores_of_all_outputs(model, source, 0.0)
    ]
    expected = sorted(scored, reverse=True)[:5]
    (hypotheses,) = beam_search(
        model,
        (source, None),
        limits([[0]], LONGEST),
        beam=len(WORDS) ** LONGEST,
        length_penalty=alpha,
        num_best=5,
        coverage=weight,
    )
    assert [h.tokens for h in hypotheses] == [words for _, words in expected]
    for hypothesis, (score, _) in zip(hypotheses, expected, strict=True):
        assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", WITH_CROSS)
def test_the_penalty_of_an_input_does_not_depend_on_the_batch(name):
    family = MODELS[name]
    model, rows = family.build(), some_rows(4, seed=5)

    def search(chosen):
        of_rows = [rows[i] for i in chosen]
        inputs = family.inputs(of_rows)
        return beam_search(model, inputs, limits(of_rows), beam=3, num_best=3, coverage=2.0)

    for i, together in enumerate(search(range(4))):
        (alone,) = search([i])
        assert [h.tokens for h in together] == [h.tokens for h in alone]
        assert [h.score for h in together] == pytest.approx([h.score for h in alone], abs=1e-4)


def test_a_model_without_cross_attention_is_refused():
    family = MODELS["gpt"]
    rows = some_rows(1, seed=0)
    with pytest.raises(UsageError, match="cross-attention"):
        beam_search(family.build(), family.inputs(rows), limits(rows), beam=2, coverage=0.2)


@pytest.mark.turns(9)
@pytest.mark.parametrize("width", [1, 3, 5])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_certain_is_never_taken_back(name, width):
    family = MODELS[name]
    model = family.build()
    early = 0
    for seed in range(3):
        rows = some_rows(1, seed=seed)
        inputs, limit = family.inputs(rows), limits(rows)
        parts = list(stream_beam(model, inputs, limit, BeamSettings(beam=width)))
        ((best, *_),) = beam_search(model, inputs, limit, beam=width)
        assert tuple(token for part in parts for token in part) == best.tokens
        early += len(parts) > 1
    assert early or width > 1 or not best.tokens


def test_a_wide_beam_of_a_decided_model_is_certain_early():
    model, source = small_model(2), torch.tensor([[3, 5, 4, 2]])
    with torch.no_grad():
        model.output.weight.mul_(20)  # nearly all probability is on one token
    settings = BeamSettings(beam=8)
    parts = list(stream_beam(model, (source, None), limits([[0]], LONGEST), settings))
    ((best, *_),) = beam_search(model, (source, None), limits([[0]], LONGEST), beam=8)
    assert [token for part in parts for token in part] == list(best.tokens)
    assert len(best.tokens) < 2 or len(parts) > 1
    assert EOS not in best.tokens
