"""Pictures through the real command line: from folders of them to labels, vectors and exports."""

import json

import numpy as np
import pytest

from headway.bundle import ImageEncoderBundle
from headway.data.image_reader import ImageReader
from headway.models import ViT, ViTConfig
from tests.fixtures.command_line import headway
from tests.fixtures.pictures import png, write_shades

TINY = [
    *("--model.model-dim", "24", "--model.num-heads", "3", "--model.ffn-dim", "40"),
    *("--model.num-layers", "2", "--training.batch-size", "8", "--data.held-out", "0.3"),
    *("--schedule.warmup", "2", "--training.average", "0", "--threads", "1"),
    *("--evaluation.every", "5", "--checkpoint.every", "5"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vision")
    write_shades(folder / "shades", count=12)
    done = headway("train", "vision", "shades", "--run", "v", "--steps", "15", *TINY, cwd=folder)
    (folder / "said").write_text(done.stderr)
    for name, shade in (("a.png", 35), ("b.png", 205)):
        (folder / name).write_bytes(png(np.full((9, 13, 3), shade, np.uint8)))
    return folder


def test_training_says_what_it_does_and_leaves_a_bundle(place):
    said = (place / "said").read_text()
    for part in (
        "2 classes; majority baseline",
        "images of 8 x 8 x 3 in patches of 4 x 4, 2 classes",
        "batches of 8 images",
        "valid step=15 accuracy=1.000",
        "classify runs/v IMAGES",
        "eval runs/v --confusion",
    ):
        assert part in said, part
    names = {path.name for path in (place / "runs" / "v" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "config.json",
        "model.safetensors",
        "images.json",
        "classes.json",
    }


def test_pictures_are_answered_a_line_each_with_their_file(here):
    lines = here("classify", "runs/v", "a.png", "b.png")[0].splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["a.png", "dark"], ["b.png", "light"]]
    assert [len(line.split("\t")) for line in lines] == [5, 5]  # all there are, of the first five
    assert len(here("classify", "runs/v", "a.png", "--top", "1")[0].split("\t")) == 3
    rows = [
        json.loads(x) for x in here("classify", "runs/v", "shades/dark", "--json")[0].splitlines()
    ]
    assert len(rows) == 12 and {row["label"] for row in rows} == {"dark"}
    assert all(set(row["probabilities"]) == {"dark", "light"} for row in rows)
    assert [row["line"] for row in rows] == list(range(1, 13))


def test_accuracy_is_measured_and_what_was_taken_for_what_is_drawn(place, here):
    out, said = here("eval", "runs/v", "--confusion", "c.png", "--json")
    own = json.loads(out)
    assert own["accuracy"] == own["correct"] / own["images"] == 1.0 and "top5" not in own
    assert "drawn     c.png" in said and (place / "c.png").read_bytes()[:4] == b"\x89PNG"
    assert "24 images" in here("eval", "runs/v", "shades")[0]
    _, said = here("eval", "runs/v", "--confusion", "c.png", code=2)
    assert "c.png exists already" in said
    write_shades(place / "strange" / "x", count=1)
    (place / "strange" / "x" / "dark").rename(place / "strange" / "x" / "blue")
    assert "the model has no class 'blue'" in here("eval", "runs/v", "strange", code=3)[1]


def test_pictures_become_vectors_in_a_file_and_in_a_plot(place, here):
    here("embed", "runs/v", "shades", "--output", "e.npz", "--label", "folder")
    with np.load(place / "e.npz") as found:
        assert found["vectors"].shape == (24, 24)
        assert found["labels"].tolist() == ["dark"] * 12 + ["light"] * 12
        assert found["texts"][0] == "shades/dark/0.png"
        cosines = found["vectors"] @ found["vectors"].T
    assert cosines[:12, :12].mean() > cosines[:12, 12:].mean() + 0.1
    here("embed", "runs/v", "shades", "--plot", "e.svg")
    assert (place / "e.svg").is_file()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["classify", "runs/v"], 2, "the images are missing"),
        (["classify", "runs/v", "none.png"], 2, "no such file or folder"),
        (["classify", "runs/v", "said"], 2, "must end in .png, .jpg"),
        (["classify", "runs/v", "a.png", "--second", "x"], 2, "--second is not available for this"),
        (["classify", "runs/v", "bad.png"], 3, "cannot be read as an image"),
        (["fill", "runs/v", "[MASK]"], 2, "holds an image classifier"),
        (["train", "vision", "none"], 2, "no such file or folder"),
        (
            ["train", "vision", "shades", "--model.patch-size", "9", "--run", "x"],
            2,
            "smaller than a patch",
        ),
    ],
)
def test_mistakes_are_told_in_words(words, code, said, place, here):
    (place / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n no more")
    assert said in here(*words, code=code)[1]


def test_the_same_command_goes_on_where_it_stopped(place, here):
    words = ["train", "vision", "shades", *TINY, "--run"]
    here(*words, "whole", "--steps", "8")
    here(*words, "parts", "--steps", "8", "--training.time", "0.001s")
    assert json.loads(here("runs", "show", "runs/parts", "--json")[0])["step"] < 8
    here("train", "--resume", "runs/parts", "--training.time", "none")
    state = "checkpoints/step-8/state.safetensors"
    one, other = (place / "runs" / run / state for run in ("whole", "parts"))
    assert one.read_bytes() == other.read_bytes()


def test_an_encoder_that_can_see_is_fine_tuned_and_exported(place, here):
    config = ViTConfig(
        model_dim=24, num_heads=3, ffn_dim=48, num_layers=2, image_size=8, channels=3
    )
    reader = ImageReader(height=8, width=8, mean=(0.5,) * 3, deviation=(0.5,) * 3)
    ImageEncoderBundle(ViT(config), reader).save(place / "seen")
    said = here("export", "seen", "--to", "hf", "--out", "seen-hf")[1]
    assert "ViTModel, image preprocessing" in said and "image preprocessing is the same" in said
    start = ("--from", "seen-hf", "--model.pooling", "first", "--steps", "4")
    here("train", "vision", "shades", "--run", "t", *start, *TINY[8:], "--training.frozen", "1")
    here("export", "runs/t", "--to", "hf")
    names = {path.name for path in (place / "runs" / "t" / "hf").iterdir()}
    assert {"config.json", "model.safetensors", "preprocessor_config.json"} <= names
    ours, theirs = (
        json.loads(here("classify", model, "a.png", "--json")[0])["probabilities"]
        for model in ("runs/t", "runs/t/hf")
    )
    assert theirs == pytest.approx(ours, abs=1e-5)
    _, said = here("export", "runs/v", "--to", "hf", "--out", "no", code=2)
    assert "positions=sinusoidal" in said and not (place / "no").exists()


def test_digits_from_an_installed_package_can_be_trained_on(place, here):
    pytest.importorskip("sklearn")
    few = ("--steps", "3", "--evaluation.every", "3", "--threads", "1", "--run", "digits")
    _, said = here("train", "vision-digits", *few)
    assert "10 classes" in said and "8 x 8 x 1 in patches of 2 x 2" in said and "top5" in said
