"""Extending a vocabulary by words of a domain."""

import pytest

from headway.base.errors import UsageError
from headway.text import EncoderTokenizer, SpecialTokens, extended, new_words

OLD = ["the fox eats the lemon", "the owl reads and eats", "a crab sings of lemons"] * 4
DOMAIN = ["Lemonades freeze!", "lemonades and owleries", "the owleries", "foxes", "lemonades once"]


@pytest.fixture
def tokenizer():
    return EncoderTokenizer.train(OLD, 100)


def test_words_that_save_most_tokens_are_first_and_single_occurrences_are_left_out(tokenizer):
    words = new_words(tokenizer, DOMAIN, 9)
    counts = {"lemonades": 3, "owleries": 2}  # "freeze", "foxes" and "once" occur once
    saved = {word: (len(tokenizer.encode(word)) - 1) * n for word, n in counts.items()}
    assert words == sorted(counts, key=lambda word: -saved[word])
    assert new_words(tokenizer, DOMAIN, 1) == words[:1]
    assert new_words(tokenizer, OLD, 9) == [
        word for word in ("lemons",) if len(tokenizer.encode(word)) > 1
    ]


def test_a_longer_vocabulary_keeps_the_old_ids_and_shortens_the_domain(tokenizer, tmp_path):
    longer = extended(tokenizer, ["lemonades", "owleries"])
    assert longer.size == tokenizer.size + 2 and longer.special_tokens == tokenizer.special_tokens
    assert [longer.encode(text) for text in OLD] == [tokenizer.encode(text) for text in OLD]
    assert longer.encode("Owleries, lemonades") == [
        tokenizer.size + 1,
        *longer.encode(","),
        tokenizer.size,
    ]
    longer.save(tmp_path)
    assert EncoderTokenizer.load(tmp_path).fingerprint == longer.fingerprint


def test_words_that_cannot_be_added_are_refused(tokenizer):
    for word in ("the", "", "##s"):
        with pytest.raises(ValueError, match="must be a new token"):
            extended(tokenizer, [word])


def test_tokenizers_of_other_kinds_are_refused():
    import tokenizers as library

    model = library.models.BPE({"<s>": 0, "</s>": 1, "<mask>": 2, "a": 3}, [])
    bpe_tokenizer = EncoderTokenizer(
        library.Tokenizer(model), SpecialTokens(pad=1, start=0, end=1, mask=2)
    )
    with pytest.raises(UsageError, match="BPE"):
        new_words(bpe_tokenizer, OLD, 3)
