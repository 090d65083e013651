"""Splitting text into words, and vocabularies of words."""

import json

import pytest

from headway.base.errors import DataError, UsageError
from headway.text import BORDER, Vocabulary, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Pizza is GREAT!", ["pizza", "is", "great"]),
        ("don't l’eau 'quoted' dogs'", ["don't", "l'eau", "quoted", "dogs"]),
        ("well-known 3 times, x2y", ["well", "known", "times", "x", "y"]),
        ("Café Café Äpfel", ["café", "café", "äpfel"]),
        ("snake_case </s>", ["snake", "case", "s"]),
        ("किताब שָלוֹם", None),
        ("", []),
        (" \t 12:30 --- \u2028", []),
    ],
)
def test_words_are_runs_of_letters_in_lower_case(text, words):
    """Words with combining vowels (None: Hindi, pointed Hebrew) are not split."""
    assert words_of(text) == (text.split() if words is None else words)


def count_words(**options) -> Vocabulary:
    texts = ["b b b a", "a c", "C d b"]
    return Vocabulary.count(texts, options.get("most", 10), options.get("min_count", 1))


def test_frequent_words_are_first_and_ties_are_in_alphabetical_order():
    assert count_words().words == [BORDER, "b", "a", "c", "d"]
    assert count_words().counts == [0, 4, 2, 2, 1]
    assert count_words(most=2).words == [BORDER, "b", "a"]
    assert count_words(min_count=2).words == [BORDER, "b", "a", "c"]


def test_unknown_words_are_left_out_and_an_error_names_the_closest_word():
    vocabulary = Vocabulary(["great", "greet", "awesome"], [3, 2, 1])
    assert vocabulary.encode(["great", "pizza", "awesome"]) == [1, 3]
    assert vocabulary.id_of("GREAT") == 1
    with pytest.raises(UsageError, match="'awsome'") as caught:
        vocabulary.id_of("awsome")
    assert caught.value.hint.startswith("awesome,")
    with pytest.raises(UsageError) as caught:
        vocabulary.id_of(
            "grept"
        )  # one letter from two words, of which the more frequent is suggested
    assert caught.value.hint.startswith("great,")
    for word in ("zzz", "", "</s>", "great awesome", "!"):
        with pytest.raises(UsageError, match="is not in the model's vocabulary"):
            vocabulary.id_of(word)


def test_a_vocabulary_is_loaded_as_saved(tmp_path):
    count_words().save(tmp_path)
    reloaded = Vocabulary.load(tmp_path)
    assert (reloaded.words, reloaded.counts) == (count_words().words, count_words().counts)
    assert reloaded.fingerprint == count_words().fingerprint != count_words(most=2).fingerprint


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"format": 2, "words": ["a"], "counts": [1]},
        {"format": 1, "words": ["a"], "counts": [1.5]},
        {"format": 1, "words": [1], "counts": [1]},
        {"format": 1, "words": ["a", "a"], "counts": [1, 1]},
        {"format": 1, "words": ["a", "b"], "counts": [1]},
    ],
)
def test_an_invalid_vocabulary_file_is_refused(tmp_path, content):
    (tmp_path / "vocabulary.json").write_text(json.dumps(content))
    with pytest.raises(DataError):
        Vocabulary.load(tmp_path)


def test_a_text_without_words_or_without_frequent_words_is_refused():
    with pytest.raises(DataError, match="no words"):
        Vocabulary.count(["12 !", ""], 10)
    with pytest.raises(DataError, match=r"at least 5 times .* none of the 2 distinct words"):
        Vocabulary.count(["a b a"], 10, 5)
