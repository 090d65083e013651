"""Drawn shapes: what the images show, what is asked about them, and what is held out."""

import json
from random import Random

import numpy as np
import pytest

from headway.base.errors import UsageError
from headway.data.dialogues import read_dialogues
from headway.data.images import read_image
from headway.datasets import drawn_shapes
from headway.datasets.drawn_shapes import (
    BACKGROUND,
    CELL,
    COLOURS,
    MOST,
    NUMBERS,
    SHAPES,
    Group,
    draw_shapes,
    drawn,
    questions,
    scene,
)

GROUPS = [
    Group(colour, shape, tuple((n, 0) for n in range(number)))
    for colour in COLOURS
    for shape in SHAPES
    for number in range(1, MOST + 1)
]


def test_a_fifth_of_the_combinations_is_held_out_and_every_pair_is_learned():
    new = [group for group in GROUPS if group.is_new]
    assert len(new) * 5 == len(GROUPS)
    known = [group for group in GROUPS if not group.is_new]
    for parts in (
        lambda g: (g.colour, g.shape),
        lambda g: (g.colour, g.number),
        lambda g: (g.shape, g.number),
    ):
        assert {parts(group) for group in known} == {parts(group) for group in GROUPS}


@pytest.mark.parametrize("is_new", [False, True])
def test_only_images_of_new_combinations_have_one(is_new):
    random = Random(1)
    for _ in range(200):
        groups = scene(random, is_new=is_new)
        assert [group.is_new for group in groups] == [is_new, *[False] * (len(groups) - 1)]
        cells = [cell for group in groups for cell in group.cells]
        assert len(set(cells)) == len(cells) < len(NUMBERS)


def test_an_image_has_the_colours_of_its_groups_in_their_cells():
    random = Random(2)
    for _ in range(50):
        groups = scene(random, is_new=False)
        pixels = drawn(groups, random)
        used = {cell: group.colour for group in groups for cell in group.cells}
        for row in range(3):
            for column in range(3):
                cell = pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
                found = {tuple(map(int, pixel)) for pixel in cell.reshape(-1, 3)}
                colour = {COLOURS[used[row, column]]} if (row, column) in used else set()
                assert found == {(BACKGROUND,) * 3} | colour


def answers(groups, kind):
    """Return question -> answer for many questions of a kind about the groups."""
    random = Random(3)
    asked = [question for _ in range(500) for question in questions(groups, 2, random)]
    return {question.text: question.answer for question in asked if question.kind == kind}


TWO = [
    Group("red", "cross", ((0, 0), (2, 1), (2, 2))),
    Group("blue", "circle", ((1, 1),)),
    Group("red", "circle", ((1, 2),)),
]


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("naming", {}),
        ("counting", {"Count the red crosses.": "three", "How many circles are there?": "two"}),
        ("counting", {"Count the shapes.": "five", "Count the blue circles.": "one"}),
        ("colour", {"What colour are the crosses?": "red"}),
        ("shape", {"What is the blue thing?": "circle"}),
        ("position", {"Where is the red circle?": "right", "Look at the top left.": "a red cross"}),
        ("yes or no", {"Is there a blue circle?": "yes", "Is there a blue cross?": "no"}),
    ],
)
def test_answers_are_true(kind, expected):
    found = answers(TWO, kind)
    assert expected.items() <= found.items()
    if kind == "colour":
        assert not any("circle" in question for question in found)  # they have two colours


def test_what_is_alone_is_named():
    assert set(answers(TWO[:1], "naming").values()) == {"three red crosses"}
    assert set(answers(TWO[1:2], "naming").values()) == {"a blue circle"}


def test_the_folder_is_the_same_each_time_and_is_reused(tmp_path, monkeypatch):
    sizes = {name: 12 for name in drawn_shapes.SPLITS}
    monkeypatch.setattr(drawn_shapes, "SPLITS", sizes)
    made = draw_shapes(tmp_path / "a")
    assert made["images"] == sizes and made["questions"]["train"] == 60 and not made.reused
    assert draw_shapes(tmp_path / "a").reused
    with monkeypatch.context() as another, pytest.raises(UsageError, match="another version"):
        another.setattr(drawn_shapes, "VERSION", 99)
        draw_shapes(tmp_path / "a")
    draw_shapes(tmp_path / "b")
    names = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    for split, count in drawn_shapes.QUESTIONS.items():
        dialogues = list(read_dialogues([tmp_path / "a" / f"{split}.jsonl"]))
        assert len(dialogues) == 12 and {len(one.turns) for one in dialogues} == {2 * count}
        assert all(len(one.images) == 1 and one.kind in drawn_shapes.KINDS for one in dialogues)
        assert read_image(dialogues[0].images[0]).shape == (48, 48, 3)
    row = json.loads((tmp_path / "a/train.jsonl").read_text().splitlines()[0])
    assert row["messages"][0]["content"][0] == {"type": "image", "path": "train/0.png"}
    assert np.ptp(read_image(tmp_path / "a/train/0.png")) > 100
