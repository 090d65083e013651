"""Paired bootstrap, and the sums over sentences that metrics of translations are made of."""

import random

import numpy as np
import pytest

from headway.evaluation import (
    Sums,
    accuracy_sums,
    paired_bootstrap,
    score_against_several,
    score_translations,
)
from headway.evaluation.bleu import TRANSLATION_METRICS
from headway.tasks.translation.evaluation import f1_by_frequency, word_counts

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "house",
    "sleeps",
    "runs",
    "in",
    "on",
    "green",
    "small",
    ",",
    ".",
    "!",
]


def sentences(count, seed, longest=12):
    generator = random.Random(seed)
    return [
        " ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for _ in range(count)
    ]


def worse(texts, rate, seed):
    """Replace each word with this probability by a random one."""
    generator = random.Random(seed)
    return [
        " ".join(generator.choice(WORDS) if generator.random() < rate else w for w in t.split())
        for t in texts
    ]


def test_the_sums_of_each_metric_give_sacrebleus_score_of_any_part():
    from sacrebleu.metrics import BLEU, CHRF, TER

    references = [sentences(40, 1), sentences(40, 2)]
    outputs = worse(references[0], 0.3, 3)
    scores = score_against_several(
        outputs, list(zip(*references, strict=True)), TRANSLATION_METRICS
    )
    scorers = {"bleu": BLEU(), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER()}
    assert list(scores.scores) == list(scorers)
    for name, scorer in scorers.items():
        sums = scores.sums[name]
        for chosen in (list(range(40)), [0, 3, 3, 7, 39], [5]):
            expected = scorer.corpus_score(
                [outputs[i] for i in chosen], [[texts[i] for i in chosen] for texts in references]
            ).score
            assert sums.value(sums.terms[chosen].sum(0).tolist()) == pytest.approx(expected)
        assert scores.signatures[name] == str(scorer.get_signature())


def test_the_bootstrap_agrees_with_sacrebleus_own_test():
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    references = sentences(120, 4)
    for rate, is_different in ((0.31, False), (0.5, True)):
        outputs = {"first": worse(references, 0.3, 5), "second": worse(references, rate, 6)}
        _, expected = PairedTest(
            list(outputs.items()), {"BLEU": BLEU()}, [references], "bs", 1000
        )()
        first, second = (
            score_translations(texts, references).sums["bleu"] for texts in outputs.values()
        )
        difference = paired_bootstrap(first, second)
        assert difference.first == pytest.approx(expected["BLEU"][0].score)
        assert difference.second == pytest.approx(expected["BLEU"][1].score)
        # sacrebleu's p-value is of one side, ours of both
        assert (difference.p_value < 0.05) == is_different == (expected["BLEU"][1].p_value < 0.05)
        assert difference.low < difference.difference < difference.high


def test_equal_models_do_not_differ_and_a_draw_takes_the_same_examples_for_both():
    first = accuracy_sums([1, 0, 1, 1], [1, 1, 1, 0])
    same = paired_bootstrap(first, first)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    # each example is one point better: without pairs, draws of the examples would hide it
    terms = np.stack([np.arange(30.0) ** 2, np.ones(30)], 1)
    better = Sums(terms + np.array([1, 0]), lambda sums: sums[0] / sums[1])
    constant = paired_bootstrap(better, Sums(terms, better.value))
    assert constant.low == pytest.approx(1) and constant.high == pytest.approx(1)


def test_accuracy_is_a_sum_over_examples():
    sums = accuracy_sums([1, 0, 2], [1, 1, 2])
    assert sums.corpus() == pytest.approx(2 / 3) and len(sums) == 3


def test_models_with_different_examples_are_refused():
    with pytest.raises(ValueError, match="must be equal and not 0"):
        paired_bootstrap(accuracy_sums([1], [1]), accuracy_sums([1, 1], [1, 1]))


def test_words_are_grouped_by_their_frequency_in_training():
    frequency = word_counts(["the cat .", "the dog .", *["house"] * 12])
    outputs = ["the cat cat !", "a house"]
    references = ["the cat sleeps .", "the house"]
    groups = f1_by_frequency(outputs, references, frequency)
    # sleeps (0); cat (1); the, the, . (2); house (12): written ! and a, cat cat, the, house
    assert [(g.least, g.most, g.words, round(g.f1, 1)) for g in groups] == [
        (0, 0, 1, 0.0),
        (1, 1, 1, round(200 / 3, 1)),
        (2, 4, 3, 50.0),
        (10, 99, 1, 100.0),
    ]
