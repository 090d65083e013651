"""Outputs that must contain phrases, compared with all outputs that do; ensembles; risk."""

import itertools
import math
import random
from dataclasses import replace

import pytest
import torch

from headway.base.errors import UsageError
from headway.decoding import (
    Ensemble,
    Forbidden,
    Limits,
    Phrases,
    expected_utilities,
    length_penalty,
)
from headway.decoding.phrases import Banks
from tests.fixtures.exhaustive import LONGEST, WORDS, scores_of_all_outputs, small_model
from tests.fixtures.searches import beam_search, greedy_search
from tests.fixtures.zoo import BOS, EOS, MODELS, PAD, limits, some_rows


def limit(phrases, **changes):
    rules = [Forbidden([[PAD], [BOS]]), Phrases(phrases, EOS)]
    return Limits(BOS, EOS, [LONGEST] * len(phrases), rules, **changes)


def contains(words, phrase):
    return any(words[i : i + len(phrase)] == phrase for i in range(len(words)))


def some_phrases(generator):
    count = generator.choice([1, 1, 2])
    return [tuple(generator.choices(WORDS, k=generator.randint(1, 2))) for _ in range(count)]


@pytest.mark.turns(25)
@pytest.mark.parametrize("seed", range(500))
def test_a_beam_as_wide_as_all_prefixes_is_exhaustive_search_with_phrases(seed):
    generator = random.Random(seed)
    model, source = small_model(seed % 8), torch.tensor([generator.choices(WORDS, k=4)])
    phrases, alpha = some_phrases(generator), generator.choice([0.0, 0.6, 1.0])
    form = generator.choice(["gnmt", "average"])
    scored = []
    for score, words in scores_of_all_outputs(model, source, 0.0):
        if all(contains(words, phrase) for phrase in phrases):
            scored.append((score / length_penalty(len(words) + 1, alpha, form), words))
    expected = sorted(scored, reverse=True)[:5]
    hypotheses = beam_search(
        model,
        (source, None),
        limit([phrases]),
        beam=len(WORDS) ** LONGEST,
        length_penalty=alpha,
        normalisation=form,
        num_best=5,
    )
    assert [h.tokens for h in hypotheses[0]] == [words for _, words in expected]
    for hypothesis, (score, _) in zip(hypotheses[0], expected, strict=True):
        assert hypothesis.score == pytest.approx(score, abs=1e-5)


@pytest.mark.turns(9)
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_of_every_model_contain_their_phrases_alone_and_in_a_batch(name, width):
    family = MODELS[name]
    model, rows = family.build(), some_rows(4, seed=3)
    phrases = [[], [[4, 5], [8]], [[7]], [[6, 6, 3]]]

    def search(chosen):
        of_rows = [rows[i] for i in chosen]
        free = limits(of_rows)
        rule = Phrases([phrases[i] for i in chosen], EOS)
        with_phrases = replace(free, rules=[*free.rules, rule])
        return beam_search(model, family.inputs(of_rows), with_phrases, beam=width)

    together = search(range(4))
    for i, (best, *_) in enumerate(together):
        assert all(contains(best.tokens, tuple(phrase)) for phrase in phrases[i])
        assert search([i])[0][0].tokens == best.tokens


def test_the_best_output_needs_no_phrase_that_it_has_anyway():
    model, source = small_model(2), torch.tensor([[3, 5, 4, 2]])
    free = Limits(BOS, EOS, [LONGEST], [Forbidden([[PAD], [BOS]])])
    best = beam_search(model, (source, None), free, beam=81)[0][0]
    if best.tokens:
        same = beam_search(model, (source, None), limit([[best.tokens[:1]]]), beam=81)[0][0]
        assert (same.tokens, same.score) == (best.tokens, pytest.approx(best.score))


def test_phrases_that_do_not_fit_are_refused_and_greedy_search_only_refuses_the_end():
    model, source = small_model(0), torch.tensor([[3, 5, 4, 2]])
    too_long = limit([[(3,) * (LONGEST + 1)]])
    with pytest.raises(UsageError, match="no output for input 1"):
        beam_search(model, (source, None), too_long, beam=4)
    greedy = greedy_search(model, (source, None), too_long)[0]
    assert len(greedy.tokens) == LONGEST and not greedy.finished
    with pytest.raises(ValueError, match="cannot be cut"):
        beam_search(model, (source, None), limit([[(3,)]], cut=True), beam=4)
    with pytest.raises(ValueError, match="at least one token"):
        Phrases([[()]], EOS)


def test_progress_counts_what_an_output_has_of_each_phrase():
    phrases = Phrases([[(1, 2, 1, 3), (5,)]], EOS)
    assert phrases.matched(0, [1, 2, 1]) == [3, 0]
    assert phrases.matched(0, [1, 2, 1, 2]) == [2, 0]  # the end of one start begins the next
    assert phrases.matched(0, [1, 2, 1, 3, 4]) == [4, 0]
    assert phrases.wanted(0, [1, 2, 1]) == [1, 3, 5]
    assert phrases.wanted(0, [1, 2, 1, 3, 5]) == [EOS]
    assert phrases.progress(0, [5, 1]) == 2 and phrases.banks(0) == 6
    assert phrases.complete(0, [5, 1, 2, 1, 3]) and not phrases.complete(0, [5])


def test_banks_share_the_beam_and_give_places_they_do_not_need_to_others():
    ranked = [(0, "a"), (0, "b"), (1, "c"), (0, "d"), (2, "e"), (0, "f")]
    assert Banks(3, 3).keep(ranked) == ["a", "c", "e"]
    assert Banks(3, 4).keep(ranked) == ["a", "b", "c", "e"]
    assert Banks(4, 2).keep(ranked) == ["c", "e"]
    assert Banks(3, 9).keep(ranked) == ["a", "b", "c", "d", "e", "f"]
    assert Banks(1, 2).keep([(0, "a"), (0, "b"), (0, "c")]) == ["a", "b"]


def test_an_ensemble_has_the_mean_of_the_probabilities():
    models, source = [small_model(seed) for seed in (0, 1, 2)], torch.tensor([[3, 5, 4, 2]])
    joint = Ensemble(models)
    tokens, state = torch.tensor([[BOS, 3]]), joint.start(source, None)
    with torch.no_grad():
        log_p, _ = joint.step(tokens, state)
        p = torch.stack([model(source, tokens).softmax(-1) for model in models]).mean(0)
    torch.testing.assert_close(log_p.exp(), p, rtol=1e-5, atol=1e-6)
    free = Limits(BOS, EOS, [LONGEST], [Forbidden([[PAD], [BOS]])])
    alone = beam_search(models[0], (source, None), free, beam=4, num_best=4)
    twice = beam_search(Ensemble(models[:1] * 2), (source, None), free, beam=4, num_best=4)
    assert [h.tokens for h in alone[0]] == [h.tokens for h in twice[0]]
    for one, two in zip(alone[0], twice[0], strict=True):
        assert one.score == pytest.approx(two.score, abs=1e-5)
    with pytest.raises(ValueError, match="at least one model"):
        Ensemble([])


@torch.no_grad()
def test_an_exhaustive_beam_of_an_ensemble_finds_its_most_probable_output():
    models, source = [small_model(seed) for seed in (3, 4)], torch.tensor([[4, 3, 5, 2]])
    scores = []
    for length in range(LONGEST + 1):
        for words in itertools.product(WORDS, repeat=length):
            p = torch.stack(
                [
                    model(source, torch.tensor([[BOS, *words]]))[0].double().softmax(-1)
                    for model in models
                ]
            ).mean(0)
            p[:, [PAD, BOS]] = 0
            p = p / p.sum(-1, keepdim=True)
            written = [*words, EOS]
            scores.append((sum(math.log(float(p[t, w])) for t, w in enumerate(written)), words))
    free = Limits(BOS, EOS, [LONGEST], [Forbidden([[PAD], [BOS]])])
    best = beam_search(Ensemble(models), (source, None), free, beam=81, length_penalty=0.0)[0][0]
    assert best.tokens == max(scores)[1] and best.score == pytest.approx(max(scores)[0], abs=1e-4)


def test_the_expected_utility_is_the_mean_chrf_against_all_samples():
    from sacrebleu.metrics import CHRF

    samples = ["the cat sleeps", "the cat sleeps", "a dog runs", "the cat slept"]
    utilities = expected_utilities(["the cat sleeps", "a dog runs", "new"], samples)
    chrf = CHRF()
    for candidate, utility in zip(["the cat sleeps", "a dog runs", "new"], utilities, strict=True):
        mean = sum(chrf.sentence_score(candidate, [s]).score for s in samples) / len(samples)
        assert utility == pytest.approx(mean)
    assert max(utilities) == utilities[0]
    assert expected_utilities(["x y"], ["x y"]) == [pytest.approx(100)]
    with pytest.raises(ValueError, match="at least one sample"):
        expected_utilities(["x"], [])
