"""Self-supervised image encoders (DINO) through the command line."""

import json

import pytest

from tests.fixtures.command_line import headway
from tests.fixtures.images import pixels_of, png, write_shades

TRAIN = """
train dino shades --model.model-dim 24 --model.num-heads 3 --model.ffn-dim 40 --model.num-layers 2
--model.hidden-dim 16 --model.bottleneck 8 --model.prototypes 12
--views.local-crops 2 --training.batch-size 4 --steps 6 --evaluation.every 3 --data.held-out 0.3
--threads 1
"""


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    """A folder with a trained encoder, images, and a file that is not an image."""
    folder = tmp_path_factory.mktemp("dino")
    write_shades(folder / "shades", count=12)
    write_shades(folder / "unseen", count=3)
    (folder / "one.png").write_bytes(png(pixels_of(20, 30)))
    (folder / "words.txt").write_text("not an image")
    headway(*TRAIN.split(), cwd=folder)
    return folder


def test_the_encoder_is_scored_by_nearest_neighbours_and_a_linear_classifier(run_headway):
    scores = json.loads(run_headway("eval", "runs/dino", "--json")[0])
    assert scores["knn"] == 1.0 and scores["linear"] == 1.0
    assert scores["spread"] > 0 and scores["known"] + scores["images"] == 24
    unseen = json.loads(
        run_headway("eval", "runs/dino", "unseen", "--known", "shades", "--json")[0]
    )
    assert (unseen["known"], unseen["images"]) == (24, 6)
    output = run_headway("eval", "runs/dino", "unseen", "--known", "shades")[0]
    assert "6 images, 24 labelled images as neighbours" in output


def test_attention_maps_are_drawn_and_no_file_is_overwritten(run_headway, working_folder):
    stderr = run_headway("look", "runs/dino", "one.png", "--output", "maps.png", "--size", "16")[1]
    assert "drawn     maps.png" in stderr
    drawn = (working_folder / "maps.png").read_bytes()
    assert drawn[:4] == b"\x89PNG"
    words = ["look", "runs/dino", "one.png", "--size", "16"]
    run_headway(*words, "--output", "last.png", "--layer", "2")
    assert (working_folder / "last.png").read_bytes() == drawn
    stderr = run_headway("look", "runs/dino", "one.png", "--output", "maps.png", code=2)[1]
    assert "exists already" in stderr and (working_folder / "maps.png").read_bytes() == drawn


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("look runs/dino nowhere.png --output a.png", 2, "nowhere.png"),
        ("look runs/dino words.txt --output a.png", 3, "words.txt"),
        ("look runs/dino one.png --output a.png --layer 3", 2, "--layer 3: must be from 1 to 2"),
        ("look runs/dino one.png --output a.png --outline 1.5", 2, "--outline"),
        ("look runs/dino one.png --output a.gif", 2, ".png"),
        ("look nowhere one.png --output a.png", 2, "nowhere"),
        ("eval runs/dino --confusion c.png", 2, "--confusion"),
        ("eval runs/dino nowhere", 2, "nowhere"),
        ("train dino --run new", 2, "no training images"),
        ("train dino nowhere --run new", 2, "nowhere"),
    ],
)
def test_a_wrong_command_gives_a_clear_error(run_headway, working_folder, words, code, part):
    assert part in run_headway(*words.split(), code=code)[1]
    assert not (working_folder / "a.png").exists()
