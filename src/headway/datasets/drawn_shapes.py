"""Drawn shapes and questions about them: a data set for models that read images, made here.

An image has one to three groups of shapes, such as "two red circles", in nine cells. Combinations
of number, colour and shape are held out: no training image has one of them, although each pair of
number, colour and shape occurs in training.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from headway.base.files import json_bytes, write_file
from headway.base.folders import new_folder
from headway.datasets.descriptions import FILE, Description, Fetched, reused

NAME = "drawn-shapes"
VERSION = 2
SIDE, CELL = 48, 16  # pixels of an image, and of each of its nine cells
BACKGROUND = 245
COLOURS = {
    "red": (205, 40, 40),
    "green": (40, 150, 60),
    "blue": (40, 80, 210),
    "yellow": (230, 200, 40),
    "black": (30, 30, 30),
}
SHAPES = ("circle", "square", "triangle", "cross")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
MOST = 4
"""Maximum number of shapes of a group."""
PLACES = {
    (0, 0): "top left",
    (0, 1): "top",
    (0, 2): "top right",
    (1, 0): "left",
    (1, 1): "middle",
    (1, 2): "right",
    (2, 0): "bottom left",
    (2, 1): "bottom",
    (2, 2): "bottom right",
}
SPLITS = {"train": 16000, "valid": 600, "test": 1200, "new-combinations": 1200}
"""Number of images of each split. Only the images of new-combinations have those held out."""
QUESTIONS = {"train": 5, "valid": 1, "test": 1, "new-combinations": 1}
"""Number of questions about an image, which are one conversation."""


@dataclass(frozen=True)
class Group:
    """Shapes of one kind and colour in an image. cells: the row and column of each."""

    colour: str
    shape: str
    cells: tuple[tuple[int, int], ...]

    @property
    def number(self) -> int:
        """The number of shapes."""
        return len(self.cells)

    @property
    def name(self) -> str:
        """Such as "a red circle" or "two red circles"."""
        if self.number == 1:
            return f"a {self.colour} {self.shape}"
        return f"{NUMBERS[self.number]} {self.colour} {plural(self.shape)}"

    @property
    def is_new(self) -> bool:
        """Whether this combination of number, colour and shape is held out: one in five."""
        colour, shape = list(COLOURS).index(self.colour), SHAPES.index(self.shape)
        return (self.number + colour + shape) % len(COLOURS) == 0


def plural(shape: str) -> str:
    """Return the plural of a noun."""
    return f"{shape}es" if shape.endswith("s") else f"{shape}s"


def covered(shape: str, half: float, y: float, x: float) -> npt.NDArray[np.bool_]:
    """Return the pixels of a cell that a shape covers. half: half of its side; y, x: its middle."""
    down, across = np.mgrid[:CELL, :CELL]
    down, across = down - y, across - x
    if shape == "circle":
        inside = down**2 + across**2 <= half**2
    elif shape == "square":
        inside = np.maximum(abs(down), abs(across)) <= 0.9 * half
    elif shape == "triangle":
        inside = (2 * abs(across) <= down + half) & (down <= half)
    else:
        inside = (np.minimum(abs(down), abs(across)) <= 0.3 * half) & (
            np.maximum(abs(down), abs(across)) <= half
        )
    return np.asarray(inside, dtype=np.bool_)


def drawn(groups: Sequence[Group], random: Random) -> npt.NDArray[np.uint8]:
    """Return the image of the groups; the size and the place of a shape in its cell are random."""
    pixels = np.full((SIDE, SIDE, 3), BACKGROUND, dtype=np.uint8)
    for group in groups:
        for row, column in group.cells:
            half = random.uniform(5.0, 6.5)
            y, x = (CELL / 2 - 0.5 + random.uniform(half - 7, 7 - half) for _ in range(2))
            cell = pixels[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
            cell[covered(group.shape, half, y, x)] = COLOURS[group.colour]
    return pixels


def scene(random: Random, *, is_new: bool) -> list[Group]:
    """Return the groups of an image. is_new: whether the first combination is one of those that are
    held out; no other is."""
    kinds = list(product(COLOURS, SHAPES))
    while True:
        chosen = random.sample(kinds, random.choice((1, 2, 2, 3)))
        numbers = [random.randint(1, MOST) for _ in chosen]
        if sum(numbers) >= len(NUMBERS):
            continue
        cells = random.sample(list(PLACES), sum(numbers))
        groups = []
        for (colour, shape), number in zip(chosen, numbers, strict=True):
            groups.append(Group(colour, shape, tuple(cells[:number])))
            cells = cells[number:]
        if [group.is_new for group in groups] == [is_new, *[False] * (len(groups) - 1)]:
            return groups


@dataclass(frozen=True)
class Question:
    """A question about an image, its answer, and what kind of question it is."""

    text: str
    answer: str
    kind: str


Asked = Iterator[tuple[Sequence[str], str]]
"""Phrasings of a question, and its answer."""


def _naming(groups: Sequence[Group], random: Random) -> Asked:
    if len(groups) == 1:
        yield (
            ("What is this?", "What do you see?", "What is in the picture?", "Name what is drawn."),
            groups[0].name,
        )


def _counting(groups: Sequence[Group], random: Random) -> Asked:
    one = groups[0]
    shapes = f"{one.colour} {plural(one.shape)}"
    total = sum(group.number for group in groups)
    of_shape = sum(group.number for group in groups if group.shape == one.shape)
    for noun, number in ((shapes, one.number), (plural(one.shape), of_shape), ("shapes", total)):
        phrasings = (
            f"How many {noun} are there?",
            f"Count the {noun}.",
            f"How many {noun} do you see?",
            f"What is the number of {noun}?",
        )
        yield phrasings, NUMBERS[number]


def _colour(groups: Sequence[Group], random: Random) -> Asked:
    one = groups[0]
    if [group.shape for group in groups].count(one.shape) == 1:
        noun, verb = (one.shape, "is") if one.number == 1 else (plural(one.shape), "are")
        yield (
            (
                f"Which colour {verb} the {noun}?",
                f"What colour {verb} the {noun}?",
                f"Name the colour of the {noun}.",
            ),
            one.colour,
        )


def _shape(groups: Sequence[Group], random: Random) -> Asked:
    one = groups[0]
    if [group.colour for group in groups].count(one.colour) == 1:
        things = f"{one.colour} thing" if one.number == 1 else f"{one.colour} things"
        verb = "is" if one.number == 1 else "are"
        answer = one.shape if one.number == 1 else plural(one.shape)
        yield (
            (f"What {verb} the {things}?", f"What kind of shape {verb} the {things}?"),
            answer,
        )


def _position(groups: Sequence[Group], random: Random) -> Asked:
    one = groups[0]
    cell = random.choice(one.cells)
    place = PLACES[cell]
    side = place if " " in place or place == "middle" else f"{place} side"
    phrasings = (
        f"What is at the {side}?",
        f"Which shape is at the {side}?",
        f"Look at the {side}.",
    )
    yield phrasings, f"a {one.colour} {one.shape}"
    if one.number == 1:
        noun = f"{one.colour} {one.shape}"
        yield (f"Where is the {noun}?", f"In which place is the {noun}?"), place


def _yes_no(groups: Sequence[Group], random: Random) -> Asked:
    present = {(group.colour, group.shape) for group in groups}
    one = groups[0]
    near = [(one.colour, shape) for shape in SHAPES] + [(colour, one.shape) for colour in COLOURS]
    absent = random.choice([kind for kind in near if kind not in present])
    for (colour, shape), answer in (((one.colour, one.shape), "yes"), (absent, "no")):
        noun = f"{colour} {shape}"
        phrasings = (
            f"Is there a {noun}?",
            f"Do you see a {noun}?",
            f"Does the picture have a {noun}?",
        )
        yield phrasings, answer


KINDS: dict[str, Callable[[Sequence[Group], Random], Asked]] = {
    "naming": _naming,
    "counting": _counting,
    "colour": _colour,
    "shape": _shape,
    "position": _position,
    "yes or no": _yes_no,
}
"""Kind of question -> its questions about the first of the groups; none if it has no answer."""


def questions(groups: Sequence[Group], count: int, random: Random) -> list[Question]:
    """Return different questions about the image, of random kinds. Those about a combination that
    is held out are about it only."""
    found: list[Question] = []
    while len(found) < count:
        order = list(groups)
        if not groups[0].is_new:
            random.shuffle(order)
        kind = random.choice(list(KINDS))
        asked = list(KINDS[kind](order, random))
        if asked:
            phrasings, answer = random.choice(asked)
            question = Question(random.choice(phrasings), answer, kind)
            if question.text not in {other.text for other in found}:
                found.append(question)
    return found


def row_of(image: str, asked: Sequence[Question]) -> dict[str, object]:
    """Return a conversation about an image as a row of messages."""
    messages: list[dict[str, object]] = []
    for number, question in enumerate(asked):
        text = {"type": "text", "text": question.text}
        shown = [] if number else [{"type": "image", "path": image}]
        messages.append({"role": "user", "content": [*shown, text]})
        messages.append({"role": "assistant", "content": question.answer})
    return {"messages": messages, "kind": asked[-1].kind}


def draw_shapes(folder: Path) -> Fetched:
    """Write the images, and a .jsonl file of conversations for each split, to the new `folder`.

    The same images and questions are made on every machine. A complete folder is reused. Raises
    UsageError if `folder` has another content, which is never overwritten.
    """
    if folder.exists():
        return reused(folder, {"dataset": NAME, "version": VERSION})
    description: Description = {
        "dataset": NAME,
        "version": VERSION,
        "images": SPLITS,
        "questions": {name: count * QUESTIONS[name] for name, count in SPLITS.items()},
    }
    with new_folder(folder) as temporary:
        for split, count in SPLITS.items():
            random = Random(f"{NAME} {VERSION} {split}")
            (temporary / split).mkdir()
            rows = []
            for number in range(count):
                groups = scene(random, is_new=split == "new-combinations")
                name = f"{split}/{number}.png"
                # not `write_file`, which waits for the disk: once for each of 19,000 files
                (temporary / name).write_bytes(_png(drawn(groups, random)))
                rows.append(row_of(name, questions(groups, QUESTIONS[split], random)))
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            write_file(temporary / f"{split}.jsonl", text.encode())
        write_file(temporary / FILE, json_bytes(description))
    return Fetched(folder, description)


def describe(fetched: Fetched) -> list[str]:
    """Describe the images and the questions of each split."""
    sizes = " · ".join(
        f"{count:,} {split} ({fetched['questions'][split]:,} questions)"
        for split, count in fetched["images"].items()
    )
    return [f"images {sizes}{fetched.note}"]


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    from PIL import Image  # an extra, which the other data sets do not need

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()
