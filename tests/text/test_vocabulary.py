"""Splitting text into words, and vocabularies of words."""

import json

import pytest

from headway.errors import DataError, UsageError
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
    """A word in a script with combining vowels (None: Hindi, pointed Hebrew) stays whole."""
    assert words_of(text) == (text.split() if words is None else words)


def made(**how) -> Vocabulary:
    texts = ["b b b a", "a c", "C d b"]
    return Vocabulary.count(texts, how.get("most", 10), how.get("min_count", 1))


def test_frequent_words_come_first_and_ties_go_by_the_alphabet():
    assert made().words == [BORDER, "b", "a", "c", "d"]
    assert made().counts == [0, 4, 2, 2, 1]
    assert made(most=2).words == [BORDER, "b", "a"]
    assert made(min_count=2).words == [BORDER, "b", "a", "c"]


def test_unknown_words_are_left_out_and_an_error_names_the_closest_word():
    vocabulary = Vocabulary(["great", "greet", "awesome"], [3, 2, 1])
    assert vocabulary.encode(["great", "pizza", "awesome"]) == [1, 3]
    assert vocabulary.id_of("GREAT") == 1
    with pytest.raises(UsageError, match="'awsome'") as caught:
        vocabulary.id_of("awsome")
    assert caught.value.hint.startswith("awesome,")
    with pytest.raises(UsageError) as caught:
        vocabulary.id_of("grept")  # one letter from two words: the more frequent
    assert caught.value.hint.startswith("great,")
    for word in ("zzz", "", "</s>", "great awesome", "!"):
        with pytest.raises(UsageError, match="is not in the model's vocabulary"):
            vocabulary.id_of(word)


def test_a_vocabulary_comes_back_as_it_was_saved(tmp_path):
    made().save(tmp_path)
    again = Vocabulary.load(tmp_path)
    assert (again.words, again.counts) == (made().words, made().counts)
    assert again.fingerprint == made().fingerprint != made(most=2).fingerprint


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
def test_what_is_no_vocabulary_is_refused(tmp_path, content):
    (tmp_path / "vocabulary.json").write_text(json.dumps(content))
    with pytest.raises(DataError):
        Vocabulary.load(tmp_path)


def test_a_text_without_words_or_without_frequent_ones_says_so():
    with pytest.raises(DataError, match="no words"):
        Vocabulary.count(["12 !", ""], 10)
    with pytest.raises(DataError, match=r"at least 5 times .* none of the 2 distinct words"):
        Vocabulary.count(["a b a"], 10, 5)
