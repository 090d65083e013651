"""Self-distillation of image encoders, which needs no labels, as a run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headway import load
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.bundle import ImageEncoderBundle
from headway.cli.main import main
from headway.data.image_corpus import examples_of_images
from headway.inspection.image_attention import image_attention_of_heads
from headway.runs import check_same, recipe, saved, train
from headway.tasks.image_data import labelled_images
from headway.tasks.self_distillation.data import NeighbourExamples
from headway.tasks.self_distillation.task import SELF_DISTILLATION as TASK
from headway.tasks.self_distillation.task import (
    NeighbourOptions,
    knn_accuracy,
    linear_accuracy,
    spread,
)
from tests.fixtures.images import pixels_of, png, write_shades

TINY = {
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.num_layers": 2,
    "model.hidden_dim": 16,
    "model.bottleneck": 8,
    "model.prototypes": 12,
    "views.local_crops": 2,
    "training.batch_size": 4,
    "training.steps": 9,
    "schedule.warmup": 2,
    "evaluation.every": 3,
    "checkpoint.every": 3,
    "machine.threads": 1,
    "data.held_out": 0.3,
}


@pytest.fixture(scope="module")
def shades(tmp_path_factory):
    return str(write_shades(tmp_path_factory.mktemp("shades") / "all", count=12))


def configured(shades, **changes):
    """Return the configuration of a run; two underscores in a name are a dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return recipe("dino", ("test", {**TINY, "data.train": shades, **dotted}))


def test_neighbours_of_shades_are_of_their_class_and_the_teacher_is_saved(shades, tmp_path):
    outcome = train(configured(shades, views__colour=0.0), tmp_path / "run")
    assert outcome.best == 1.0
    bundle = load(tmp_path / "run")
    assert isinstance(bundle, ImageEncoderBundle)
    vectors = bundle.embed([png(np.full((8, 8, 3), v, np.uint8)) for v in (30, 35, 210)])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert {"knn", "spread"} <= rows[-1].keys()
    config = saved(tmp_path / "run")
    assert (config.model.image_size, config.model.channels) == (8, 3)
    check_same(tmp_path / "run", configured(shades, views__colour=0.0))


def test_training_python_and_the_command_line_give_the_same_scores(tmp_path, capsys):
    """The evaluation of the saved teacher equals that of the step it was saved at, in every number,
    also if images are resized."""
    write_shades(tmp_path / "all", count=12, size=(12, 9))
    run, config = tmp_path / "run", configured(str(tmp_path / "all"), model__image_size=8)
    train(config, run)
    (best,) = [row for row in read_metrics(run / "metrics.jsonl", "valid") if row["is_best"]][-1:]
    bundle, options = load(run), NeighbourOptions()
    held_out = TASK.held_out(bundle, run, saved(run), options)
    scores = TASK.evaluate(bundle, held_out)
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert list(scores.numbers()) == ["knn", "linear", "spread"]
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(run), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    splits = labelled_images(saved(run).data)
    assert scores.counts == {"known": len(splits.train), "images": len(splits.valid)}
    numbers = {label: i for i, label in enumerate(sorted(set(held_out.known.labels)))}
    sides = []
    for images in (splits.train, splits.valid):
        vectors = bundle.embed([image.data() for image in images], normalise=False)
        sides += [vectors, torch.tensor([numbers[image.label] for image in images])]
    assert scores["knn"] == knn_accuracy(*sides)
    assert scores["linear"] == pytest.approx(linear_accuracy(*sides), abs=1e-3)
    assert scores["spread"] == pytest.approx(spread(sides[2]), abs=1e-5)


def test_neighbours_may_come_from_another_folder_and_be_limited(shades, tmp_path):
    run = tmp_path / "run"
    train(configured(shades, training__steps=3, evaluation__images=2), run)
    bundle = load(run)
    neighbours = write_shades(tmp_path / "other", count=3)
    options = NeighbourOptions(known=neighbours, known_limit=4, neighbours=1)
    for examples in (
        TASK.held_out(bundle, run, saved(run), options),
        TASK.read(bundle, [Path(shades)], None, options),
    ):
        assert len(examples.known) == 6 and len(examples) in (len(examples.images), 24)
        scores = TASK.evaluate(bundle, examples, options)
        assert scores.counts == {"known": 4, "images": len(examples)}
    (neighbours / "dark").rename(neighbours / "blue")
    with pytest.raises(DataError, match="no labelled neighbour has the class 'dark'"):
        TASK.evaluate(bundle, TASK.read(bundle, [Path(shades)], None, options))


def test_images_of_one_class_are_enough_to_learn_without_labels(tmp_path):
    folder = write_shades(tmp_path / "all", count=12)
    for path in (folder / "light").iterdir():
        path.unlink()
    config = configured(str(folder))
    train(config, tmp_path / "run")
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert rows[-1]["spread"] > 0 and "knn" not in rows[-1]
    assert saved(tmp_path / "run").evaluation.metric == "spread"
    check_same(tmp_path / "run", config)
    bundle, images = load(tmp_path / "run"), examples_of_images([])
    with pytest.raises(DataError, match="no images to evaluate"):
        TASK.evaluate(bundle, NeighbourExamples(images, images))


def test_a_resumed_run_ends_with_the_same_bits(shades, tmp_path):
    class Stop:
        def after_step(self, run, report):
            if run.step == 5:
                run.stop = "interrupted"

    config = configured(shades, model__dropout=0.1, training__accumulate=2)
    train(config, tmp_path / "whole")
    train(config, tmp_path / "parts", observers=[Stop()])
    train(config, tmp_path / "parts")
    uninterrupted, resumed = (
        load(tmp_path / name).model.state_dict() for name in ("whole", "parts")
    )
    assert all(torch.equal(uninterrupted[key], resumed[key]) for key in uninterrupted)
    logged = [
        [row["loss"] for row in read_metrics(tmp_path / name / "metrics.jsonl", "step")]
        for name in ("whole", "parts")
    ]
    assert logged[0] == logged[1]


def test_a_classifier_is_fine_tuned_from_a_self_distilled_encoder(shades, tmp_path):
    train(configured(shades), tmp_path / "dino")
    settings = {k: v for k, v in TINY.items() if k.startswith(("training", "machine", "schedule"))}
    settings |= {
        "data.train": shades,
        "training.steps": 1,
        "training.start": str(tmp_path / "dino"),
    }
    config = recipe("vision", ("test", {**settings, "training.average": 0.0, "optimizer.lr": 1e-9}))
    train(config, tmp_path / "classes")
    pretrained, fine_tuned = (load(tmp_path / name).vit for name in ("dino", "classes"))
    for a, b in zip(pretrained.parameters(), fine_tuned.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-2, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__train": ()}, "no training images"),
        ({"data__train": ("nowhere",)}, "nowhere"),
        ({"training__start": "nowhere"}, "nowhere"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    shades, tmp_path, changes, message
):
    with pytest.raises(UsageError, match=message):
        train(configured(shades, **changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_attention_of_an_image_is_the_row_of_the_class_token(shades, tmp_path):
    train(configured(shades, training__steps=1), tmp_path / "run")
    bundle = load(tmp_path / "run")
    image = pixels_of(11, 9)
    maps = bundle.attention(image).maps
    for layer in (0, 1):
        (weights,) = [value for name, value in maps.items() if f"blocks.{layer}." in name]
        attention = image_attention_of_heads(bundle, image, layer=layer)
        assert attention.pixels.shape == (8, 8, 3) and attention.maps.shape == (3, 2, 2)
        torch.testing.assert_close(attention.maps.flatten(1), weights[:, 0, 1:])
    fine = image_attention_of_heads(bundle, pixels_of(40, 20), size=16)
    assert fine.pixels.shape == (32, 16, 3) and fine.maps.shape == (3, 8, 4)
    assert fine.reach == (32, 16) and fine.names == ["head 1", "head 2", "head 3"]
    with pytest.raises(UsageError, match="layers are 0 to 1"):
        image_attention_of_heads(bundle, image, layer=2)
