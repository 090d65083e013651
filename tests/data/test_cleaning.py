"""Pairs that are no translations are removed, with a reason; all others are kept."""

import random

import pytest

from headway.base.errors import UsageError
from headway.tasks.translation.corpora.cleaning import (
    CleaningRules,
    clean,
    clean_files,
    learn_languages,
)
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.pairs.reading import pair_files

ENGLISH = "the house is green and small ; a dog runs with her friends through this quiet street"
GERMAN = "das Haus ist grün und klein ; ein Hund läuft mit seinen Freunden durch diese stille Gasse"
RULES = CleaningRules()


def corpus(count=1500, seed=0):
    generator = random.Random(seed)
    pairs = []
    for line in range(1, count + 1):
        words = generator.choices(range(16), k=generator.randint(6, 12))
        sides = (" ".join(text.split()[i] for i in words) for text in (ENGLISH, GERMAN))
        pairs.append(Pair(*(f"{side} {line}" for side in sides), line))
    return pairs


def reasons(pairs, languages=None):
    return [reason for _, reason in clean(pairs, languages, RULES)]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "Haus", "empty"),
        ("a coffee", "ein CafÃ©", "encoding"),
        ("it’s late", "es ist spâ€™t", "encoding"),
        ("a\x00b", "ab", "encoding"),
        ("lost \ufffd", "verloren", "encoding"),
        ("x" * 1001, "y" * 1001, "too long"),
        ("a house", "ein kleines grünes Haus mit einem Garten", "ratio"),
        ("12:30 !", "zwölf Uhr", "no letters"),
        ("A house, green.", "a house  green", "copy"),
        # these are translations
        ("Âge: 3 ans", "Alter: 3 Jahre", None),
        ("São Paulo, façade", "Fassade à São Paulo", None),
        ("Berlin", "Berlin", None),
        ("42", "42", None),
        ("no", "aber nein!", None),
    ],
)
def test_each_rule_removes_its_pairs_and_no_others(source, target, reason):
    assert reasons([Pair(source, target, 1)]) == [reason]


def test_the_second_of_two_equal_pairs_is_removed_but_not_another_translation():
    pairs = [Pair("a", "ein", 1), Pair("a", "eine", 2), Pair("a", "ein", 3)]
    assert reasons(pairs) == [None, None, "duplicate"]


def test_swapped_and_foreign_sides_are_found_without_a_model_of_any_language():
    good = corpus()
    languages = learn_languages(good, RULES)
    assert reasons(good, languages).count(None) == len(good)
    wrong = [
        Pair(good[0].target, good[0].source, 1),
        Pair("the dog runs through this street", "the quiet house is green and small", 2),
        Pair("her friends and a small house", "наш дом стоит на тихой улице", 3),
    ]
    assert reasons(wrong, languages) == ["language"] * 3
    assert learn_languages(good[:900], RULES) is None


def test_files_are_split_into_kept_and_removed_pairs(tmp_path):
    table = tmp_path / "pairs.tsv"
    rows = ["en\tde", "a house\tein Haus", "\tHaus", "a house\tein Haus", "a dog\tein Hund"]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    cleaned, removed = clean_files(pair_files(table, "en", "de"), tmp_path / "clean.tsv", RULES)
    assert (cleaned.read, cleaned.kept) == (4, 2) and not cleaned.languages_checked
    assert cleaned.removed == {"empty": 1, "duplicate": 1}
    assert (tmp_path / "clean.tsv").read_text("utf-8").splitlines() == [rows[0], rows[1], rows[4]]
    assert removed.read_text("utf-8").splitlines() == [
        "reason\tline\ten\tde",
        "empty\t3\t\tHaus",
        "duplicate\t4\ta house\tein Haus",
    ]


def test_nothing_is_overwritten_and_other_names_are_refused(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("a\tb\n", encoding="utf-8")
    files = pair_files(table, "1", "2")
    with pytest.raises(UsageError, match=r"ends in \.tsv"):
        clean_files(files, tmp_path / "out.txt", RULES)
    (tmp_path / "out.removed.tsv").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"out\.removed\.tsv"):
        clean_files(files, tmp_path / "out.tsv", RULES)
    assert not (tmp_path / "out.tsv").exists()
