"""Token masking: the rates of the paper, and no special token is masked."""

from collections import Counter

import numpy as np
import pytest

from headway.tasks.masked_language_modeling.masking import Masking, MaskingConfig
from headway.text import EncoderTokenizer

TEXTS = [
    f"{name} {noun} and so on it goes! unbelievably long {name} is unbelievable, {noun}? one two"
    for name in ("fox", "baker", "owl", "crab", "miller")
    for noun in ("a lemon", "the tree", "some bread", "one boat three four")
]


@pytest.fixture(scope="module")
def tokenizer():
    return EncoderTokenizer.train(TEXTS, 130)


def rows_of(tokenizer, count=400):
    words = [i for i in range(tokenizer.size) if i not in tokenizer.special_ids]
    random, special_tokens = np.random.default_rng(5), tokenizer.special_tokens
    for _ in range(count):
        texts = [random.choice(words, size=random.integers(20, 40)).tolist() for _ in range(2)]
        yield special_tokens.frame(*texts)[0]


def test_the_rates_of_masked_random_and_kept_tokens_are_the_papers(tokenizer):
    masking, counts, tokens = Masking.of(MaskingConfig(), tokenizer), Counter(), 0
    swapped = Counter()
    for number, ids in enumerate(rows_of(tokenizer)):
        masked, positions = masking(ids, np.random.default_rng([1, number]))
        tokens += len(ids) - 3
        assert positions == sorted(set(positions)) and len(positions) == round(
            0.15 * (len(ids) - 3)
        )
        chosen = set(positions)
        for position, (original, replacement) in enumerate(zip(ids, masked, strict=True)):
            if position not in chosen:
                assert replacement == original
                continue
            assert original not in tokenizer.special_ids
            kind = (
                "hidden"
                if replacement == tokenizer.special_tokens.mask
                else "kept"
                if replacement == original
                else "random"
            )
            counts[kind] += 1
            if kind == "random":
                assert replacement not in tokenizer.special_ids
                swapped[replacement] += 1
    count = sum(counts.values())
    assert count / tokens == pytest.approx(0.15, abs=0.002)
    for kind, fraction in (("hidden", 0.8), ("random", 0.1), ("kept", 0.1)):
        assert (
            abs(counts[kind] - fraction * count) < 3.5 * (count * fraction * (1 - fraction)) ** 0.5
        ), kind
    ordinary = tokenizer.size - len(tokenizer.special_ids)
    assert len(swapped) > 0.9 * ordinary  # any word at all


def test_positions_are_chosen_uniformly(tokenizer):
    masking, counts = Masking.of(MaskingConfig(fraction=0.25), tokenizer), Counter()
    ids = next(iter(rows_of(tokenizer, 1)))
    for number in range(2000):
        counts.update(masking(ids, np.random.default_rng(number))[1])
    middle = ids.index(tokenizer.special_tokens.end)
    expected = set(range(len(ids))) - {0, middle, len(ids) - 1}
    assert set(counts) == expected
    mean_count = sum(counts.values()) / len(expected)
    assert max(counts.values()) - min(counts.values()) < 8 * (mean_count * 0.75) ** 0.5


def test_whole_words_are_masked_or_kept(tokenizer):
    masking = Masking.of(MaskingConfig(whole_words=True, fraction=0.4), tokenizer)
    continues, several, total, tokens = tokenizer.continues(), 0, 0, 0
    ids = tokenizer.special_tokens.frame(
        tokenizer.encode("oneowl long tooboat goes fox owl crab one two three andlemon")
    )[0]
    word_of, words = [], 0
    for position, i in enumerate(ids):
        words += not (continues[i] and position > 1)
        word_of.append(words)
    assert len(set(word_of)) < len(ids)
    for number in range(300):
        _, positions = masking(ids, np.random.default_rng(number))
        chosen = set(positions)
        for word in {word_of[position] for position in positions}:
            own_positions = {position for position in range(len(ids)) if word_of[position] == word}
            assert own_positions <= chosen
            several += len(own_positions) > 1
        total, tokens = total + len(positions), tokens + len(ids) - 2
    assert several > 20 and 0.25 < total / tokens <= 0.42


def test_a_token_after_a_special_token_does_not_continue_a_word(tokenizer):
    continuing = tokenizer.continues().index(True)
    word_start = next(i for i in range(5, tokenizer.size) if not tokenizer.continues()[i])
    ids = tokenizer.special_tokens.frame([continuing, word_start], [continuing, continuing])[0]
    masking = Masking.of(MaskingConfig(whole_words=True, fraction=0.3), tokenizer)
    choices = {tuple(masking(ids, np.random.default_rng(number))[1]) for number in range(60)}
    assert choices == {(1,), (2,), (4, 5)} or choices == {(1,), (2,)}, choices


def test_a_sequence_of_special_tokens_is_not_masked(tokenizer):
    for whole in (False, True):
        masking = Masking.of(MaskingConfig(whole_words=whole), tokenizer)
        ids = tokenizer.special_tokens.frame([])[0]
        assert masking(ids, np.random.default_rng(0)) == (ids, [])


def test_fractions_that_exceed_1_are_refused():
    with pytest.raises(ValueError, match=r"masked=0\.8 and random=0\.3 must add up"):
        MaskingConfig(masked=0.8, random=0.3)
