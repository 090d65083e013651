"""The translation memory, compared with a search through all entries."""

import random

import pytest

from headway.base.errors import DataError
from headway.tasks.translation.translation_memory import Match, TranslationMemory, edit_distance

WORDS = ["open", "close", "the", "a", "file", "folder", "now", "all", ",", "."]


def plain_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(
        plain_distance(a[1:], b[1:]) + (a[0] != b[0]),
        plain_distance(a[1:], b) + 1,
        plain_distance(a, b[1:]) + 1,
    )


def test_the_edit_distance_is_that_of_the_recursion():
    generator = random.Random(0)
    for _ in range(200):
        a, b = (generator.choices("xyz", k=generator.randint(0, 5)) for _ in range(2))
        distance = plain_distance(a, b)
        for most in range(6):
            assert edit_distance(a, b, most) == (distance if distance <= most else None)


@pytest.mark.turns(3)
@pytest.mark.parametrize("least", [0.5, 0.75, 1.0])
def test_the_index_loses_no_match(least):
    generator = random.Random(1)
    sources = {" ".join(generator.choices(WORDS, k=generator.randint(1, 7))) for _ in range(300)}
    memory = TranslationMemory([(source, source.upper()) for source in sorted(sources)])
    matched = 0
    for _ in range(300):
        words = generator.choices([*WORDS, "new"], k=generator.randint(1, 7))
        text = " ".join(words)
        similarities = [
            1 - edit_distance(words, other.split(), 99) / max(len(words), len(other.split()))
            for other in sorted(sources)
        ]
        match = memory.best(text, least)
        best = max(similarities)
        assert (match is not None) == (best >= least - 1e-9)
        if match is not None:
            assert match.similarity == pytest.approx(best)
            assert match.source == sorted(sources)[similarities.index(best)]
            matched += 1
    assert matched > 0 and (matched < 300 or least < 1)


def test_the_first_of_two_translations_counts_and_white_space_does_not():
    memory = TranslationMemory(
        [("Open  it", "Ouvrir"), ("Open it", "Ouvre"), ("", "x"), ("y", " ")]
    )
    assert len(memory) == 1
    assert memory.best(" Open it\n") == Match("Open it", "Ouvrir", 1.0)
    assert memory.best("Close it", 0.9) is None


@pytest.mark.parametrize(
    ("source", "target", "text", "adapted"),
    [
        ("Open %s", "Ouvrir %s", "Open %d", "Ouvrir %d"),
        (
            "Open %(a)s in %(b)s",
            "Dans %(b)s ouvrir %(a)s",
            "Open {x} in {y}",
            "Dans {y} ouvrir {x}",
        ),
        ("Open %s", "Ouvrir %s", "Open", None),
        ("Open", "Ouvrir", "Open %s", None),
        ("Open %s", "Ouvrir", "Open %d", None),
        ("Open {a} {a}", "Ouvrir {a} {a}", "Open {b} {c}", None),
    ],
)
def test_placeholders_of_the_memory_become_those_of_the_text(source, target, text, adapted):
    assert Match(source, target, 0.9).adapted(text) == adapted


def test_an_empty_memory_is_refused(tmp_path):
    path = tmp_path / "memory.tsv"
    path.write_text("en\tfr\n\tvide\n")
    with pytest.raises(DataError, match=r"memory\.tsv"):
        TranslationMemory.read(path, "en", "fr")
