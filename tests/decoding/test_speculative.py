"""Drafts change the speed of generation only: the distribution of outputs is the same."""

from collections import Counter

import pytest
import torch

from headway.decoding import (
    Forbidden,
    FrequencyPenalty,
    ModelDraft,
    MostProbable,
    NoRepeat,
    PromptLookup,
    Sampling,
    Temperature,
    TopK,
    open_rows,
    sample,
    speculative,
    speculative_steps,
)
from headway.decoding.speculative import Proposal
from tests.fixtures.written_language import (
    EOS,
    chi_square_deviation,
    gpt,
    output_probabilities,
    some_prompts,
)


def sampling(rules=(), **changes):
    return Sampling(**({"eos": EOS, "max_tokens": 12, "rules": rules} | changes))


def speculated(model, prompts, config, seeds, draft):
    rows = open_rows(model, prompts, seeds, config)
    for grown in speculative_steps(model, rows, config, draft):
        assert grown
    return rows


def drafts(vocabulary=11, **changes):
    """Return a similar draft model, a dissimilar one, one with a short context, and copying."""
    return {
        "near": ModelDraft(gpt(1, vocabulary, num_layers=1), 3),
        "far": ModelDraft(gpt(9, vocabulary, sharp=15.0), 4),
        "short": ModelDraft(gpt(9, vocabulary, max_length=11), 3),
        "copied": PromptLookup(2, 5),
    }


def counts_of(rows):
    return Counter((*row.tokens, *[EOS] * (row.reason == "end")) for row in rows)


@pytest.mark.turns(6)
@pytest.mark.parametrize("rules", [[], [Temperature(0.7), TopK(4)], [FrequencyPenalty(1.0)]])
@pytest.mark.parametrize("kind", drafts())
def test_outputs_have_the_frequency_of_their_probability(kind, rules):
    model, prompt = gpt(3, vocabulary=5), [3, 4, 0, 3]
    rows = speculated(
        model, [prompt], sampling(rules, max_tokens=3), [list(range(1500))], drafts(5)[kind]
    )
    assert chi_square_deviation(counts_of(rows), output_probabilities(model, prompt, 3, rules)) < 4


def test_the_test_detects_sampling_without_the_residual_distribution(monkeypatch):
    """With a planted bug, the replacement of a rejected token is sampled from p, not from p - q."""

    def careless(p, proposal, offset, row):
        token, position = proposal.tokens[offset], len(row.tokens)
        ratio = float(p[token]) / float(proposal.weights[offset][token])
        if speculative.uniform(row.seed, position, "keep") < ratio:
            return token
        return int(speculative.draw(p[None], [speculative.uniform(row.seed, position)]))

    monkeypatch.setattr(speculative, "_accept_or_resample", careless)
    model, prompt = gpt(3, vocabulary=5), [3, 4, 0, 3]
    rows = speculated(
        model, [prompt], sampling(max_tokens=3), [list(range(1500))], drafts(5)["far"]
    )
    assert chi_square_deviation(counts_of(rows), output_probabilities(model, prompt, 3)) > 8


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", drafts())
@pytest.mark.parametrize("rules", [[], [NoRepeat(2), Forbidden([[4], [5, 6]])]])
def test_greedy_output_is_identical(kind, rules):
    for seed in range(4):
        model, prompts = gpt(seed, max_length=20), some_prompts(5, seed=seed)
        config = sampling([*rules, MostProbable()], alternatives=2)
        plain = sample(model, prompts, config, [[0]] * 5)
        rows = speculated(model, prompts, config, [[0]] * 5, drafts()[kind])
        for (twin,), row in zip(plain, rows, strict=True):
            assert (row.tokens, row.reason) == (twin.tokens, twin.reason)
            assert row.log_probabilities == pytest.approx(twin.log_probabilities, abs=1e-5)
            assert len(row.alternatives) == len(row.tokens)


def test_copied_proposals_change_no_token_of_any_sample():
    model, prompts, config = gpt(5), some_prompts(5), sampling([Temperature(0.8)])
    seeds = [[1, 2], [3], [4, 5, 6], [7], [8]]
    plain = [row for rows in sample(model, prompts, config, seeds) for row in rows]
    rows = speculated(model, prompts, config, seeds, PromptLookup(1, 6))
    assert [(r.tokens, r.reason) for r in rows] == [(r.tokens, r.reason) for r in plain]


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", drafts())
@pytest.mark.parametrize("rules", [[], [Temperature(0.8), NoRepeat(3)]])
def test_the_output_of_a_row_does_not_depend_on_the_batch(kind, rules):
    """This also holds at the end of the context of the model or of the draft."""
    model, draft = gpt(2, max_length=16), drafts()[kind]
    prompts, config = [*some_prompts(5), [3] * 15, [4] * 13], sampling(rules)
    rows = speculated(model, prompts, config, [[i, i + 20] for i in range(7)], draft)
    for row in rows:
        (alone,) = speculated(model, [row.prompt], config, [[row.seed]], draft)
        assert (alone.tokens, alone.reason) == (row.tokens, row.reason)
    assert {row.reason for row in rows} >= {"context", "end"}


def test_a_good_draft_saves_steps_of_the_model():
    model, calls = gpt(1), []
    step = model.step
    config = sampling([MostProbable()], eos=99)
    twin = gpt(1)
    model.step = lambda tokens, state: (calls.append(tokens.shape[1]), step(tokens, state))[1]
    speculated(model, [[3, 4, 5]], config, [[0]], ModelDraft(twin, 3))
    assert calls == [4, 4, 4]


def test_the_caller_may_end_a_row_in_the_middle_of_a_step():
    model, config = gpt(1), sampling([MostProbable()], eos=99)
    rows = open_rows(model, [[3, 4], [5]], [[0], [0]], config)
    for grown in speculative_steps(model, rows, config, ModelDraft(gpt(1), 5)):
        for row in grown:
            if row.item == 0 and len(row.tokens) == 3:
                row.end("stop")
    assert [len(row.tokens) for row in rows] == [3, 12]
    assert [row.reason for row in rows] == ["stop", "length"]


def test_prompt_lookup_proposes_the_tokens_after_the_last_occurrence():
    row = open_rows(gpt(), [[1, 2, 3, 9, 1, 2, 3, 4, 5, 1, 2]], [[0]], sampling())
    assert PromptLookup(2, 3).propose(row, [9]) == [Proposal([3, 4, 5])]
    assert PromptLookup(2, 3).propose(row, [1]) == [Proposal([3])]
    assert PromptLookup(3, 3).propose(open_rows(gpt(), [[4, 5, 6]], [[0]], sampling()), [9]) == [
        Proposal()
    ]


def test_a_draft_of_another_vocabulary_is_refused():
    with pytest.raises(ValueError, match="vocabulary of 7 tokens, the model of 11"):
        speculated(gpt(), [[3]], sampling(), [[0]], ModelDraft(gpt(0, vocabulary=7)))
    assert torch.is_inference_mode_enabled() is False
