"""Images through the command line: from folders of images to labels, vectors and exports."""

import json

import numpy as np
import pytest
from PIL import Image

from headway.bundle import ImageEncoderBundle
from headway.data.image_reader import ImageReader
from headway.models import ViT, ViTConfig
from tests.fixtures.command_line import headway
from tests.fixtures.images import png, write_shades

TINY = [
    *("--model.model-dim", "24", "--model.num-heads", "3", "--model.ffn-dim", "40"),
    *("--model.num-layers", "2", "--training.batch-size", "8", "--data.held-out", "0.3"),
    *("--schedule.warmup", "2", "--training.average", "0", "--threads", "1"),
    *("--evaluation.every", "5", "--checkpoint.every", "5"),
]


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vision")
    write_shades(folder / "shades", count=12)
    done = headway("train", "vision", "shades", "--run", "v", "--steps", "15", *TINY, cwd=folder)
    (folder / "training.txt").write_text(done.stderr)
    for name, shade in (("a.png", 35), ("b.png", 205)):
        (folder / name).write_bytes(png(np.full((9, 13, 3), shade, np.uint8)))
    return folder


def test_training_reports_its_progress_and_saves_a_bundle(working_folder):
    output = (working_folder / "training.txt").read_text()
    for part in (
        "2 classes; majority baseline",
        "images of 8 x 8 x 3 in patches of 4 x 4, 2 classes",
        "batches of 8 images",
        "valid step=15 accuracy=1.000",
        "classify runs/v FILES",
        "eval runs/v --confusion",
    ):
        assert part in output, part
    names = {path.name for path in (working_folder / "runs" / "v" / "model").iterdir()}
    assert names == {
        "MANIFEST.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "images.json",
        "classes.json",
    }


def test_each_image_is_classified_on_a_line_with_its_file(run_headway):
    lines = run_headway("classify", "runs/v", "a.png", "b.png")[0].splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["a.png", "dark"], ["b.png", "light"]]
    assert [len(line.split("\t")) for line in lines] == [
        5,
        5,
    ]  # both classes, as there are fewer than five
    assert len(run_headway("classify", "runs/v", "a.png", "--top", "1")[0].split("\t")) == 3
    rows = [
        json.loads(x)
        for x in run_headway("classify", "runs/v", "shades/dark", "--json")[0].splitlines()
    ]
    assert len(rows) == 12 and {row["label"] for row in rows} == {"dark"}
    assert all(set(row["probabilities"]) == {"dark", "light"} for row in rows)
    assert [row["line"] for row in rows] == list(range(1, 13))


def test_accuracy_is_computed_and_the_confusion_matrix_is_drawn(working_folder, run_headway):
    stdout, stderr = run_headway("eval", "runs/v", "--confusion", "c.png", "--json")
    scores = json.loads(stdout)
    assert scores["accuracy"] == scores["correct"] / scores["images"] == 1.0
    assert "top5" not in scores
    assert "drawn     c.png" in stderr and (working_folder / "c.png").read_bytes()[:4] == b"\x89PNG"
    assert "24 images" in run_headway("eval", "runs/v", "shades")[0]
    _, stderr = run_headway("eval", "runs/v", "--confusion", "c.png", code=2)
    assert "c.png exists already" in stderr
    write_shades(working_folder / "unknown" / "x", count=1)
    (working_folder / "unknown" / "x" / "dark").rename(working_folder / "unknown" / "x" / "blue")
    assert "the model has no class 'blue'" in run_headway("eval", "runs/v", "unknown", code=3)[1]


def test_images_are_embedded_into_a_file_and_a_plot(working_folder, run_headway):
    run_headway("embed", "runs/v", "shades", "--output", "e.npz", "--label", "folder")
    with np.load(working_folder / "e.npz") as arrays:
        assert arrays["vectors"].shape == (24, 24)
        assert arrays["labels"].tolist() == ["dark"] * 12 + ["light"] * 12
        assert arrays["texts"][0] == "shades/dark/0.png"
        cosines = arrays["vectors"] @ arrays["vectors"].T
    assert cosines[:12, :12].mean() > cosines[:12, 12:].mean() + 0.1
    run_headway("embed", "runs/v", "shades", "--plot", "e.svg")
    assert (working_folder / "e.svg").is_file()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["classify", "runs/v"], 2, "the images are missing"),
        (["classify", "runs/v", "none.png"], 2, "no such file or folder"),
        (["classify", "runs/v", "training.txt"], 2, "must end in .png, .jpg"),
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
def test_a_wrong_command_gives_a_clear_error(words, code, message, working_folder, run_headway):
    (working_folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n no more")
    assert message in run_headway(*words, code=code)[1]


def test_an_image_encoder_is_fine_tuned_and_exported(working_folder, run_headway):
    config = ViTConfig(
        model_dim=24, num_heads=3, ffn_dim=48, num_layers=2, image_size=8, channels=3
    )
    reader = ImageReader(height=8, width=8, mean=(0.5,) * 3, deviation=(0.5,) * 3)
    ImageEncoderBundle(ViT(config), reader).save(working_folder / "encoder")
    stderr = run_headway("export", "encoder", "--to", "hf", "--output", "encoder-hf")[1]
    assert "as        ViTModel" in stderr and "outputs differ at most in" in stderr
    start = ("--from", "encoder-hf", "--model.pooling", "first", "--steps", "4")
    run_headway(
        "train", "vision", "shades", "--run", "t", *start, *TINY[8:], "--training.frozen", "1"
    )
    run_headway("export", "runs/t", "--to", "hf")
    names = {path.name for path in (working_folder / "runs" / "t" / "hf").iterdir()}
    assert {"config.json", "model.safetensors", "preprocessor_config.json"} <= names
    ours, theirs = (
        json.loads(run_headway("classify", model, "a.png", "--json")[0])["probabilities"]
        for model in ("runs/t", "runs/t/hf")
    )
    assert theirs == pytest.approx(ours, abs=1e-5)
    _, stderr = run_headway("export", "runs/v", "--to", "hf", "--output", "no", code=2)
    assert "positions=sinusoidal" in stderr and not (working_folder / "no").exists()


def test_digits_from_an_installed_package_can_be_trained_on(working_folder, run_headway):
    pytest.importorskip("sklearn")
    options = ("--steps", "3", "--evaluation.every", "3", "--threads", "1", "--run", "digits")
    _, stderr = run_headway("train", "vision-digits", *options)
    assert "10 classes" in stderr and "8 x 8 x 1 in patches of 2 x 2" in stderr
    assert "top5" in stderr


def test_a_run_on_parquet_evaluates_the_column_that_it_was_trained_on(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    shades = sorted(write_shades(tmp_path / "shades", count=12).rglob("*.png"))
    table = pyarrow.table(
        {
            "img": [{"bytes": None, "path": str(path.relative_to(tmp_path))} for path in shades],
            "fine_label": [path.parent.name == "light" for path in shades],
            "coarse_label": [0.0] * len(shades),
        }
    )
    parquet.write_table(table, tmp_path / "x.parquet")
    words = ("train", "vision", "x.parquet", "--steps", "15", *TINY)
    refused = headway(*words, "--run", "none", cwd=tmp_path, check=3).stderr
    assert "may be fine_label or coarse_label" in refused and "--data.label NAME" in refused
    headway(*words, "--run", "v", "--data.label", "fine_label", cwd=tmp_path)
    scores = json.loads(headway("eval", "runs/v", "x.parquet", "--json", cwd=tmp_path).stdout)
    assert scores["accuracy"] == 1.0 and scores["images"] == 24
    Image.open(shades[0]).save(tmp_path / "a.gif")
    line = headway("classify", "runs/v", "a.gif", cwd=tmp_path).stdout
    assert line.split("\t")[:2] == ["a.gif", "false"]
