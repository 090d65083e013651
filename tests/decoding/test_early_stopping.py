"""Beam search and its early stopping, compared with the plain search of the lecture."""

import random
from dataclasses import replace

import pytest
import torch
from torch import nn

from headway import decoding as plain
from headway.decoding import (
    BeamSettings,
    Forbidden,
    Limits,
    Phrases,
    length_penalty,
    run,
    stream_beam,
)
from tests.fixtures.exhaustive import WORDS, small_model
from tests.fixtures.searches import beam_search, greedy_search
from tests.fixtures.zoo import BOS, EOS, MODELS, PAD, limits, some_rows

RULES = [Forbidden([[PAD], [BOS]])]


class Prefixes(list):
    """The state of a `Table`: what each row has read."""

    def reorder(self, rows):
        return Prefixes(self[i] for i in rows)


class Table(nn.Module):
    """A model without input whose logits are random numbers for each prefix. It counts its steps.

    ends: added to the logit of </s>; the larger it is, the shorter are probable outputs.
    """

    def __init__(self, seed, ends):
        super().__init__()
        self.seed, self.ends, self.steps = seed, ends, 0
        self.weight = nn.Parameter(torch.zeros(1))

    def logits(self, prefix):
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        logits = 2 * torch.randn(6, generator=generator)
        logits[EOS] += self.ends
        return logits

    def start(self):
        return Prefixes([()])

    def step(self, tokens, state):
        self.steps += 1
        state = Prefixes(
            (*read, token) for read, (token,) in zip(state, tokens.tolist(), strict=True)
        )
        return torch.stack([self.logits(read[1:]) for read in state])[:, None], state


def drawn(seed, **changes):
    """Return a model, limits and settings of a search, all random. changes: of the settings."""
    draw = random.Random(seed)
    model, width = Table(seed, draw.choice([0.0, 1.0, 2.0])), draw.randint(1, 4)
    limit = Limits(
        BOS,
        EOS,
        [draw.randint(1, 12)],
        RULES,
        cut=draw.random() < 0.3,
    )
    settings = {
        "beam": width,
        "normalisation": draw.choice(["gnmt", "average"]),
        "length_penalty": draw.choice([0.0, 0.6, 1.0, 2.0]),
        "num_best": draw.randint(1, width),
    }
    return model, limit, settings | changes


def searched(model, limit, inputs=(), **settings):
    """Return the best outputs as (score, tokens), and the number of steps."""
    model.steps = 0
    (hypotheses,) = beam_search(model, inputs, limit, **settings)
    return [(h.score, h.tokens) for h in hypotheses], model.steps


def plainly_searched(model, limit, *, num_best, **settings):
    """Return what `searched` does, of the plain beam search."""
    model.steps = 0
    search = plain.beam_search(model, (), limit, BeamSettings(**settings), num_best=num_best)
    return [(h.score, h.tokens) for h in run(model, search)], model.steps


def test_the_fast_beam_search_is_the_plain_one_and_early_stopping_never_takes_more_steps():
    fewer = other = 0
    for seed in range(100):
        model, limit, settings = drawn(seed)
        outputs, steps = {}, {}
        for early in (False, True):
            outputs[early], steps[early] = searched(model, limit, **settings, early_stopping=early)
            expected, count = plainly_searched(model, limit, **settings, early_stopping=early)
            assert steps[early] == count, (seed, early)
            assert [tokens for _, tokens in outputs[early]] == [t for _, t in expected], seed
            scores = [score for score, _ in outputs[early]]
            assert scores == pytest.approx([score for score, _ in expected], abs=1e-5)
        assert steps[True] <= steps[False]
        for (score, _), (exact, _) in zip(outputs[True], outputs[False], strict=True):
            assert score <= exact
        if settings["length_penalty"] == 0:
            assert (outputs[True], steps[True]) == (outputs[False], steps[False])
        fewer += steps[True] < steps[False]
        other += outputs[True] != outputs[False]
    assert fewer > 15 and other > 2, "the draws have both"


def test_the_fast_greedy_search_is_the_plain_one():
    for seed in range(50):
        model, limit, _ = drawn(seed)
        (fast,) = greedy_search(model, (), limit)
        assert run(model, plain.greedy_search(model, (), limit)) == list(fast.tokens), seed


@pytest.mark.parametrize("name", ["translator", "rnn", "gpt", "captioner"])
def test_the_fast_searches_of_a_batch_are_the_plain_ones_of_each_input(name):
    family = MODELS[name]
    model, rows = family.build(), some_rows(4, seed=7)
    greedy, beams = (
        search(model, family.inputs(rows), limits(rows)) for search in (greedy_search, beam_search)
    )
    for row, one, (best,) in zip(rows, greedy, beams, strict=True):
        inputs, limit = family.inputs([row]), limits([row])
        assert run(model, plain.greedy_search(model, inputs, limit)) == list(one.tokens)
        (expected,) = run(model, plain.beam_search(model, inputs, limit, BeamSettings()))
        assert expected.tokens == best.tokens
        assert expected.score == pytest.approx(best.score, abs=1e-5)


def test_what_was_streamed_is_a_prefix_of_the_output_that_stops_early():
    several = other = 0
    for seed in range(200):
        model, limit, settings = drawn(seed, num_best=1)
        ((_, exact),), _ = searched(model, limit, **settings)
        ((_, early),), _ = searched(model, limit, **settings, early_stopping=True)
        del settings["num_best"]
        shown, stops = (), BeamSettings(**settings, early_stopping=True)
        for part in stream_beam(model, (), limit, stops):
            several += bool(shown)
            shown += tuple(part)
            assert early[: len(shown)] == shown, seed
        assert shown == early
        other += early != exact
    assert several > 30 and other > 5


@pytest.mark.parametrize("name", ["translator", "rnn", "gpt", "captioner"])
def test_an_output_that_stops_early_does_not_depend_on_the_batch(name):
    family = MODELS[name]
    model, rows = family.build(), some_rows(6, seed=5)
    with torch.no_grad():
        model.output.weight.mul_(3)
    options = {"beam": 3, "num_best": 2, "length_penalty": 2.0, "early_stopping": True}
    together = beam_search(model, family.inputs(rows), limits(rows), **options)
    for row, of_batch in zip(rows, together, strict=True):
        (alone,) = beam_search(model, family.inputs([row]), limits([row]), **options)
        assert [h.tokens for h in alone] == [h.tokens for h in of_batch]


def both_logs(model, limit, inputs=(), **settings):
    """Return the outputs that stop early, and the candidates of this search; the exact search has
    the same candidates, and then as many others as the last number."""
    early, exact = [], []
    outputs, _ = searched(
        model, limit, inputs, **settings, early_stopping=True, observe=early.append
    )
    searched(model, limit, inputs, **settings, observe=exact.append)
    assert early == exact[: len(early)]
    return outputs, early, len(exact) - len(early)


def test_outputs_with_phrases_that_stop_early_have_their_phrases():
    fewer = 0
    for seed in range(100):
        model, limit, settings = drawn(seed, length_penalty=1.0)
        phrase = (3 + seed % 3,)
        rules = [*RULES, Phrases([[phrase]], EOS)]
        limit = replace(limit, rules=rules, max_lengths=[9], cut=False)
        outputs, seen, others = both_logs(model, limit, **settings)
        assert all(phrase[0] in tokens for _, tokens in outputs)
        ended = [
            c.log_probability / length_penalty(len(c.before) + 1, 1.0, settings["normalisation"])
            for c in seen
            if c.ends
        ]
        best = sorted(ended, reverse=True)[: settings["num_best"]]
        assert [score for score, _ in outputs] == pytest.approx(best)
        fewer += others > 0
    assert fewer > 10


def test_a_search_with_coverage_that_stops_early_is_the_beginning_of_the_exact_one():
    fewer = 0
    for seed in range(60):
        _, limit, settings = drawn(
            seed, beam=2 + seed % 3, num_best=1, length_penalty=2.0, coverage=0.1
        )
        source = torch.tensor([random.Random(seed).choices(WORDS, k=4)])
        outputs, seen, others = both_logs(
            small_model(seed), replace(limit, cut=False), (source, None), **settings
        )
        assert {tokens for _, tokens in outputs} <= {c.before for c in seen if c.ends}
        fewer += others > 0
    assert fewer


def test_groups_without_diversity_stop_like_one_group():
    fewer = 0
    for seed in range(60):
        model, limit, settings = drawn(seed, length_penalty=1.0, early_stopping=True)
        one, steps = searched(model, limit, **settings)
        settings |= {"beam": 2 * settings["beam"], "beam_groups": 2}
        two, steps_of_two = searched(model, limit, **settings)
        assert ([t for _, t in two], steps_of_two) == ([t for _, t in one], steps)
        diverse, steps = searched(model, limit, **settings, diversity=3.0)
        assert len({tokens for _, tokens in diverse}) == len(diverse) > 0
        settings["early_stopping"] = False
        fewer += steps < searched(model, limit, **settings, diversity=3.0)[1]
    assert fewer > 10
