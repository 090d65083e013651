"""Which words are hidden, and by what: the paper's rates, and never a mark."""

from collections import Counter

import numpy as np
import pytest

from headway.data.masking import Masking, MaskingConfig
from headway.text import MarkedTokenizer

TEXTS = [
    f"{name} {thing} and so on it goes! unbelievably long {name} is unbelievable, {thing}? one two"
    for name in ("fox", "baker", "owl", "crab", "miller")
    for thing in ("a lemon", "the tree", "some bread", "one boat three four")
]


@pytest.fixture(scope="module")
def tokenizer():
    return MarkedTokenizer.train(TEXTS, 130)


def rows_of(tokenizer, count=400):
    words = [i for i in range(tokenizer.size) if i not in tokenizer.special_ids]
    random, marks = np.random.default_rng(5), tokenizer.marks
    for _ in range(count):
        texts = [random.choice(words, size=random.integers(20, 40)).tolist() for _ in range(2)]
        yield marks.frame(*texts)[0]


def test_shares_of_hidden_random_and_kept_words_are_the_papers(tokenizer):
    masking, found, tokens = Masking.of(MaskingConfig(), tokenizer), Counter(), 0
    swapped = Counter()
    for number, ids in enumerate(rows_of(tokenizer)):
        shown, places = masking(ids, np.random.default_rng([1, number]))
        tokens += len(ids) - 3
        assert places == sorted(set(places)) and len(places) == round(0.15 * (len(ids) - 3))
        chosen = set(places)
        for place, (was, now) in enumerate(zip(ids, shown, strict=True)):
            if place not in chosen:
                assert now == was
                continue
            assert was not in tokenizer.special_ids
            kind = "hidden" if now == tokenizer.marks.mask else "kept" if now == was else "random"
            found[kind] += 1
            if kind == "random":
                assert now not in tokenizer.special_ids
                swapped[now] += 1
    count = sum(found.values())
    assert count / tokens == pytest.approx(0.15, abs=0.002)
    for kind, share in (("hidden", 0.8), ("random", 0.1), ("kept", 0.1)):
        assert abs(found[kind] - share * count) < 3.5 * (count * share * (1 - share)) ** 0.5, kind
    ordinary = tokenizer.size - len(tokenizer.special_ids)
    assert len(swapped) > 0.9 * ordinary  # any word at all


def test_places_are_chosen_evenly(tokenizer):
    masking, found = Masking.of(MaskingConfig(share=0.25), tokenizer), Counter()
    ids = next(iter(rows_of(tokenizer, 1)))
    for number in range(2000):
        found.update(masking(ids, np.random.default_rng(number))[1])
    middle = ids.index(tokenizer.marks.end)
    expected = set(range(len(ids))) - {0, middle, len(ids) - 1}
    assert set(found) == expected
    each = sum(found.values()) / len(expected)
    assert max(found.values()) - min(found.values()) < 8 * (each * 0.75) ** 0.5


def test_whole_words_are_hidden_or_left(tokenizer):
    masking = Masking.of(MaskingConfig(whole_words=True, share=0.4), tokenizer)
    continues, several, total, tokens = tokenizer.continues(), 0, 0, 0
    ids = tokenizer.marks.frame(
        tokenizer.encode("oneowl long tooboat goes fox owl crab one two three andlemon")
    )[0]
    word_of, words = [], 0
    for place, i in enumerate(ids):
        words += not (continues[i] and place > 1)
        word_of.append(words)
    assert len(set(word_of)) < len(ids)
    for number in range(300):
        _, places = masking(ids, np.random.default_rng(number))
        chosen = set(places)
        for word in {word_of[place] for place in places}:
            mine = {place for place in range(len(ids)) if word_of[place] == word}
            assert mine <= chosen
            several += len(mine) > 1
        total, tokens = total + len(places), tokens + len(ids) - 2
    assert several > 20 and 0.25 < total / tokens <= 0.42


def test_a_piece_after_a_mark_belongs_to_no_word_before_it(tokenizer):
    goes_on = tokenizer.continues().index(True)
    other = next(i for i in range(5, tokenizer.size) if not tokenizer.continues()[i])
    ids = tokenizer.marks.frame([goes_on, other], [goes_on, goes_on])[0]
    masking = Masking.of(MaskingConfig(whole_words=True, share=0.3), tokenizer)
    seen = {tuple(masking(ids, np.random.default_rng(number))[1]) for number in range(60)}
    assert seen == {(1,), (2,), (4, 5)} or seen == {(1,), (2,)}, seen


def test_a_row_of_marks_hides_nothing(tokenizer):
    for whole in (False, True):
        masking = Masking.of(MaskingConfig(whole_words=whole), tokenizer)
        ids = tokenizer.marks.frame([])[0]
        assert masking(ids, np.random.default_rng(0)) == (ids, [])


def test_shares_beyond_all_are_refused():
    with pytest.raises(ValueError, match=r"hidden=0\.8 and random=0\.3 must add up"):
        MaskingConfig(hidden=0.8, random=0.3)
