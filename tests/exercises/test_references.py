"""References that are not Headway's own code agree with it, or with an enumeration."""

from itertools import product

import pytest
import torch
from torch import nn

from headway.decoding import Limits
from headway.evaluation import score_translations
from headway.exercises import EXERCISES
from headway.exercises.inputs import TableModel
from tests.fixtures.searches import greedy_search

BOS, EOS = 1, 2


class TableState:
    """The prefixes of all sequences."""

    def __init__(self, prefixes):
        self.prefixes = prefixes

    def reorder(self, rows):
        return TableState([self.prefixes[row] for row in rows])


class TableStepper(nn.Module):
    """A table model behind the contract of Headway's searches."""

    def __init__(self, table):
        super().__init__()
        self.table = table
        self.unused = nn.Parameter(torch.zeros(1))

    def start(self):
        return TableState([[]])

    def step(self, tokens, state):
        prefixes = [[*p, *new] for p, new in zip(state.prefixes, tokens.tolist(), strict=True)]
        return torch.stack([self.table(p) for p in prefixes])[:, None], TableState(prefixes)


@pytest.mark.parametrize("seed", range(20))
def test_greedy_search_equals_that_of_headway(seed):
    table = TableModel(6, seed)
    (hypothesis,) = greedy_search(TableStepper(table), (), Limits(BOS, EOS, [5]))
    assert EXERCISES["greedy-search"].correct(table, BOS, EOS, 5) == list(hypothesis.tokens)


@pytest.mark.parametrize("seed", range(20))
def test_a_wide_beam_finds_the_most_probable_of_all_outputs(seed):
    table, length = TableModel(4, seed), 4
    outputs = {}
    for tokens in product(range(4), repeat=length):
        end = tokens.index(EOS) + 1 if EOS in tokens else length
        kept = tokens[:end]
        prefixes = [[BOS, *kept[:i]] for i in range(end)]
        outputs[kept] = sum(float(table(p)[t]) for p, t in zip(prefixes, kept, strict=True))
    best = [token for token in max(outputs, key=outputs.__getitem__) if token != EOS]
    reference = EXERCISES["beam-search"].correct
    assert reference(table, BOS, EOS, 4**length, length) == best


@pytest.mark.parametrize("seed", range(4))
def test_the_plain_bleu_equals_that_of_sacrebleu(seed):
    exercise = EXERCISES["bleu"]
    texts = exercise.random(seed)
    outputs, references = ([" ".join(words) for words in side] for side in texts)
    score = exercise.correct(*texts)
    assert 0 < score == pytest.approx(score_translations(outputs, references).bleu)
