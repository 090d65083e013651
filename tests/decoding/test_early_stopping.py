"""Early stopping of beam search, compared with a plain search that has its definition."""

import random
from dataclasses import replace

import pytest
import torch
from torch import nn

from headway.decoding import Forbidden, Limits, Phrases, beam_search, length_penalty, stream_beam
from tests.fixtures.exhaustive import WORDS, small_model
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


def plain_search(model, limit, *, width, alpha, num_best, early_stopping):
    """Return the best outputs as (score, tokens), and the number of steps.

    Every prefix is read from its beginning, and the ends of the search are written as defined.
    """

    def penalty(length):
        return length_penalty(length, alpha, limit.normalisation)

    def log_probabilities(prefix):
        logits = model.logits(prefix)
        logits[[PAD, BOS]] = -torch.inf
        return logits.log_softmax(-1).tolist()

    (longest,) = limit.max_lengths
    live, finished, steps = [(0.0, ())], [], 0
    while True:
        steps += 1
        candidates = []
        for total, prefix in live:
            if len(prefix) == longest:
                ending = 0.0 if limit.cut else log_probabilities(prefix)[EOS]
                candidates.append((total + ending, prefix, EOS))
                continue
            log_p = log_probabilities(prefix)
            candidates += [(total + log_p[token], prefix, token) for token in (EOS, *WORDS)]
        candidates = sorted(candidates, reverse=True)[: 2 * width]
        for total, prefix, token in candidates:
            if token == EOS:
                counted = len(prefix) + (0 if limit.cut and len(prefix) == longest else 1)
                finished.append((total / penalty(counted), prefix))
        finished = sorted(finished, reverse=True)[:width]
        live = [(total, (*prefix, t)) for total, prefix, t in candidates if t != EOS][:width]
        if not live:
            break
        best_live, length = live[0][0], len(live[0][1])
        if limit.cut and length == longest:  # cut, without a further step
            finished += [(total / penalty(longest), prefix) for total, prefix in live]
            finished = sorted(finished, reverse=True)[:width]
            break
        scores = [score for score, _ in finished]
        if len(scores) >= num_best and best_live / penalty(longest + 1) <= scores[num_best - 1]:
            break  # no live prefix can be better at any length
        if early_stopping and len(scores) == width and best_live / penalty(length) <= scores[-1]:
            break  # no live prefix is better at its present length
    return finished[:num_best], steps


def drawn(seed, **changes):
    """Return a model, limits and settings of a search, all random. changes: of the settings."""
    draw = random.Random(seed)
    model, width = Table(seed, draw.choice([0.0, 1.0, 2.0])), draw.randint(1, 4)
    limit = Limits(
        BOS,
        EOS,
        [draw.randint(0, 12)],
        RULES,
        cut=draw.random() < 0.3,
        normalisation=draw.choice(["gnmt", "average"]),
    )
    alpha = draw.choice([0.0, 0.6, 1.0, 2.0])
    settings = {"width": width, "alpha": alpha, "num_best": draw.randint(1, width)}
    return model, limit, settings | changes


def searched(model, limit, inputs=(), **settings):
    """Return what `plain_search` does, of `beam_search`."""
    model.steps = 0
    (hypotheses,) = beam_search(model, inputs, limit, **settings)
    return [(h.score, h.tokens) for h in hypotheses], model.steps


def test_searches_end_at_the_defined_step_and_early_stopping_never_takes_more():
    fewer = other = 0
    for seed in range(200):
        model, limit, settings = drawn(seed)
        outputs, steps = {}, {}
        for early in (False, True):
            outputs[early], steps[early] = searched(model, limit, **settings, early_stopping=early)
            expected, count = plain_search(model, limit, **settings, early_stopping=early)
            assert steps[early] == count, (seed, early)
            assert [tokens for _, tokens in outputs[early]] == [t for _, t in expected], seed
            scores = [score for score, _ in outputs[early]]
            assert scores == pytest.approx([score for score, _ in expected], abs=1e-5)
        assert steps[True] <= steps[False]
        for (score, _), (exact, _) in zip(outputs[True], outputs[False], strict=True):
            assert score <= exact
        if settings["alpha"] == 0:
            assert (outputs[True], steps[True]) == (outputs[False], steps[False])
        fewer += steps[True] < steps[False]
        other += outputs[True] != outputs[False]
    assert fewer > 30 and other > 5, "the draws have both"


def test_what_was_streamed_is_a_prefix_of_the_output_that_stops_early():
    several = other = 0
    for seed in range(200):
        model, limit, settings = drawn(seed, num_best=1)
        ((_, exact),), _ = searched(model, limit, **settings)
        ((_, early),), _ = searched(model, limit, **settings, early_stopping=True)
        del settings["num_best"]
        shown = ()
        for part in stream_beam(model, (), limit, **settings, early_stopping=True):
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
    options = {"width": 3, "num_best": 2, "alpha": 2.0, "early_stopping": True}
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
        model, limit, settings = drawn(seed, alpha=1.0)
        phrase = (3 + seed % 3,)
        rules = [*RULES, Phrases([[phrase]], EOS)]
        limit = replace(limit, rules=rules, max_lengths=[9], cut=False)
        outputs, seen, others = both_logs(model, limit, **settings)
        assert all(phrase[0] in tokens for _, tokens in outputs)
        ended = [
            c.log_probability / length_penalty(len(c.before) + 1, 1.0, limit.normalisation)
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
        _, limit, settings = drawn(seed, alpha=2.0, coverage=0.1)
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
        model, limit, settings = drawn(seed, alpha=1.0, early_stopping=True)
        one, steps = searched(model, limit, **settings)
        settings |= {"width": 2 * settings["width"], "groups": 2}
        two, steps_of_two = searched(model, limit, **settings)
        assert ([t for _, t in two], steps_of_two) == ([t for _, t in one], steps)
        diverse, steps = searched(model, limit, **settings, diversity=3.0)
        assert len({tokens for _, tokens in diverse}) == len(diverse) > 0
        settings["early_stopping"] = False
        fewer += steps < searched(model, limit, **settings, diversity=3.0)[1]
    assert fewer > 10
