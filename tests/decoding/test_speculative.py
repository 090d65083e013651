"""Drafts change how fast a model writes, and nothing else: the law of its outputs stays."""

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


def speculated(model, prompts, how, seeds, draft):
    rows = open_rows(model, prompts, seeds, how)
    for grown in speculative_steps(model, rows, how, draft):
        assert grown
    return rows


def drafts(vocabulary=11, **changes):
    """One like the model, one unlike it, one whose context ends early; and copying."""
    return {
        "near": ModelDraft(gpt(1, vocabulary, num_layers=1), 3),
        "far": ModelDraft(gpt(9, vocabulary, sharp=15.0), 4),
        "short": ModelDraft(gpt(9, vocabulary, max_length=11), 3),
        "copied": PromptLookup(2, 5),
    }


def counts_of(rows):
    return Counter((*row.tokens, *[EOS] * (row.reason == "end")) for row in rows)


@pytest.mark.parametrize("kind", drafts())
@pytest.mark.parametrize("rules", [[], [Temperature(0.7), TopK(4)], [FrequencyPenalty(1.0)]])
def test_outputs_come_as_often_as_their_probability_says(kind, rules):
    model, prompt = gpt(3, vocabulary=5), [3, 4, 0, 3]
    rows = speculated(
        model, [prompt], sampling(rules, max_tokens=3), [list(range(1500))], drafts(5)[kind]
    )
    assert chi_square_deviation(counts_of(rows), output_probabilities(model, prompt, 3, rules)) < 4


def test_without_the_residual_distribution_the_outputs_are_seen_to_be_wrong(monkeypatch):
    """A planted bug: what replaces a refused token is drawn from p instead of p - q."""

    def careless(p, proposal, offset, row):
        token, position = proposal.tokens[offset], len(row.tokens)
        ratio = float(p[token]) / float(proposal.weights[offset][token])
        if speculative.uniform(row.seed, position, "keep") < ratio:
            return token
        return speculative.draw(p[None], [speculative.uniform(row.seed, position)])[0]

    monkeypatch.setattr(speculative, "_accept_or_resample", careless)
    model, prompt = gpt(3, vocabulary=5), [3, 4, 0, 3]
    rows = speculated(
        model, [prompt], sampling(max_tokens=3), [list(range(1500))], drafts(5)["far"]
    )
    assert chi_square_deviation(counts_of(rows), output_probabilities(model, prompt, 3)) > 8


@pytest.mark.parametrize("kind", drafts())
@pytest.mark.parametrize("rules", [[], [NoRepeat(2), Forbidden([[4], [5, 6]])]])
def test_greedy_output_is_identical(kind, rules):
    for seed in range(4):
        model, prompts = gpt(seed, max_length=20), some_prompts(5, seed=seed)
        how = sampling([*rules, MostProbable()], alternatives=2)
        plain = sample(model, prompts, how, [[0]] * 5)
        rows = speculated(model, prompts, how, [[0]] * 5, drafts()[kind])
        for (twin,), row in zip(plain, rows, strict=True):
            assert (row.tokens, row.reason) == (twin.tokens, twin.reason)
            assert row.log_probabilities == pytest.approx(twin.log_probabilities, abs=1e-5)
            assert len(row.alternatives) == len(row.tokens)


def test_copied_proposals_change_no_token_of_any_sample():
    model, prompts, how = gpt(5), some_prompts(5), sampling([Temperature(0.8)])
    seeds = [[1, 2], [3], [4, 5, 6], [7], [8]]
    plain = [row for rows in sample(model, prompts, how, seeds) for row in rows]
    rows = speculated(model, prompts, how, seeds, PromptLookup(1, 6))
    assert [(r.tokens, r.reason) for r in rows] == [(r.tokens, r.reason) for r in plain]


@pytest.mark.parametrize("kind", drafts())
@pytest.mark.parametrize("rules", [[], [Temperature(0.8), NoRepeat(3)]])
def test_a_row_gets_in_any_company_what_it_gets_alone(kind, rules):
    """Also where rows come to the end of the context, of the model's or of the draft's."""
    model, draft = gpt(2, max_length=16), drafts()[kind]
    prompts, how = [*some_prompts(5), [3] * 15, [4] * 13], sampling(rules)
    rows = speculated(model, prompts, how, [[i, i + 20] for i in range(7)], draft)
    for row in rows:
        (alone,) = speculated(model, [row.prompt], how, [[row.seed]], draft)
        assert (alone.tokens, alone.reason) == (row.tokens, row.reason)
    assert {row.reason for row in rows} >= {"context", "end"}


def test_a_good_draft_saves_steps_of_the_model():
    model, calls = gpt(1), []
    step = model.step
    how = sampling([MostProbable()], eos=99)
    twin = gpt(1)
    model.step = lambda tokens, state: (calls.append(tokens.shape[1]), step(tokens, state))[1]
    speculated(model, [[3, 4, 5]], how, [[0]], ModelDraft(twin, 3))
    assert calls == [4, 4, 4]


def test_who_reads_along_may_end_a_row_in_the_middle_of_a_step():
    model, how = gpt(1), sampling([MostProbable()], eos=99)
    rows = open_rows(model, [[3, 4], [5]], [[0], [0]], how)
    for grown in speculative_steps(model, rows, how, ModelDraft(gpt(1), 5)):
        for row in grown:
            if row.item == 0 and len(row.tokens) == 3:
                row.end("stop")
    assert [len(row.tokens) for row in rows] == [3, 12]
    assert [row.reason for row in rows] == ["stop", "length"]


def test_what_followed_last_time_is_proposed_again():
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
