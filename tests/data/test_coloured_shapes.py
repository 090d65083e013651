"""The example that draws images of two shapes: captions say what the pixels show."""

import runpy

import numpy as np
import pytest

from tests.fixtures.pages import ROOT

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(ROOT / "examples" / "coloured_shapes.py"))


def test_captions_name_colour_shape_and_relation(example, tmp_path):
    from PIL import Image

    example["write"](tmp_path / "shapes", count=40)
    lines = (tmp_path / "shapes" / "captions.tsv").read_text().split("\n")
    assert lines[0] == "image\ten" and lines[-1] == "" and len(lines) == 42
    masks = {shape: example["inside"](shape) for shape in example["SHAPES"]}
    for line in lines[1:-1]:
        name, caption = line.split("\t")
        pixels = np.asarray(Image.open(tmp_path / "shapes" / name))
        relation = "above" if " above " in caption else "left of"
        first, second = caption.split(f" {relation} ")
        corners = [(0, 6), (12, 6)] if relation == "above" else [(6, 0), (6, 12)]
        for (top, left), phrase in zip(corners, (first, second), strict=True):
            _, colour, shape = phrase.split()
            cell = pixels[top : top + 12, left : left + 12]
            is_colour = (cell == example["COLOURS"][colour]).all(-1)
            assert (is_colour == masks[shape]).all(), caption


def test_shapes_differ_and_an_existing_folder_is_kept(example, tmp_path):
    masks = [example["inside"](shape).tobytes() for shape in example["SHAPES"]]
    assert len(set(masks)) == 3
    with pytest.raises(SystemExit, match="exists already"):
        example["write"](tmp_path)
