"""Sentence splitting: where sentences end, and where they do not."""

import pytest

from headway.text import split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The fox eats. The owl reads!  Does it? Yes…", ["The fox eats.", "The owl reads!"]),
        ("Dr. Doe met J. R. Miller. They ate.", ["Dr. Doe met J. R. Miller.", "They ate."]),
        ("Fruit, e.g. Lemons. See No. 3 now.", ["Fruit, e.g. Lemons.", "See No. 3 now."]),
        ("He said no. Then he left.", ["He said no.", "Then he left."]),
        ("So do I. You too.", ["So do I.", "You too."]),
        ("It costs 3.5 coins. Take two.", ["It costs 3.5 coins.", "Take two."]),
        ("1. Mix it. 2. Bake it.", ["1. Mix it.", "2. Bake it."]),
        ("He waited ... and left. Good.", ["He waited ... and left.", "Good."]),
        ("“Is it?” he asked. “Yes.” She ran.", ["“Is it?” he asked.", "“Yes.”", "She ran."]),
        ('He sings ("la!"). "Oh?" Then not.', ['He sings ("la!").', '"Oh?"', "Then not."]),
        ("One . Two .", ["One .", "Two ."]),
        ("日本。中国！はい", ["日本。", "中国！", "はい"]),
        ("A title\n\nand a text\n  \nThe end", ["A title", "and a text", "The end"]),
        ("no end at all", ["no end at all"]),
        (" \n\n", []),
    ],
)
def test_sentences_end_where_expected(text, expected):
    assert split_sentences(text)[: len(expected)] == expected
    assert len(split_sentences(text)) <= len(expected) + 2


def test_wrapped_prose_is_joined_and_verse_keeps_its_lines():
    prose = "The baker took\nthe bread and gave it\nto the owl. The\nowl was glad."
    assert split_sentences(prose) == [
        "The baker took the bread and gave it to the owl.",
        "The owl was glad.",
    ]
    verse = "The moon is old\nThe owl is bold,\nand never cold;\nA crab, I'm told\nIs slow"
    assert split_sentences(verse) == [
        "The moon is old",
        "The owl is bold, and never cold;",
        "A crab, I'm told",
        "Is slow",
    ]


@pytest.mark.parametrize(
    "text", ["A b. C d! e?\nF\n\n  g.H  (I.) j\tk", '"..." ?! . . A', "x." * 50 + " Y. z. Z"]
)
def test_every_word_is_kept(text):
    assert " ".join(split_sentences(text)).split() == text.split()
