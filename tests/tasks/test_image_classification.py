"""Image classification as a run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from headway import load
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.base.sharing import Share
from headway.bundle import ImageEncoderBundle
from headway.cli.main import main
from headway.data.image_corpus import examples_of_images
from headway.data.image_reader import ImageReader
from headway.evaluation import score_classes
from headway.models import ViT, ViTConfig
from headway.runs import check_same, recipe, saved, train
from headway.tasks import registry
from headway.tasks.image_classification.model import ImageClassifierBundle
from headway.tasks.image_classification.task import IMAGE_CLASSIFICATION as TASK
from headway.tasks.image_classification.task import vision_job
from headway.tasks.image_data import labelled_images, prepare_labelled_images
from headway.tasks.task import NO_OPTIONS
from tests.fixtures.images import png, write_shades

TINY = {
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.num_layers": 2,
    "training.batch_size": 4,
    "training.steps": 12,
    "training.average": 0.0,
    "schedule.warmup": 2,
    "evaluation.every": 4,
    "checkpoint.every": 4,
    "machine.threads": 1,
    "augmentation.padding": 1,
    "data.held_out": 0.3,
}
ENCODER = ViTConfig(model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, image_size=16, channels=3)


@pytest.fixture(scope="module")
def shades(tmp_path_factory):
    return str(write_shades(tmp_path_factory.mktemp("shades") / "all", count=12))


def configured(shades, **changes):
    """Return the configuration of a run; two underscores in a name are a dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return recipe("vision", ("test", {**TINY, "data.train": shades, **dotted}))


def prepared(config, folder, reader=None, emit=lambda event: None):
    return prepare_labelled_images(config.data, config.model, reader, folder, emit)


def job_of(config, folder, start=None):
    machine = prepare(MachineConfig(threads=1))
    reader = None if start is None else start.reader
    return vision_job(config, prepared(config, folder, reader), start, machine)


def test_two_shades_are_classified_and_the_best_model_is_saved(shades, tmp_path):
    outcome = train(configured(shades), tmp_path / "run")
    assert outcome.best == 1.0
    bundle = load(tmp_path / "run")
    assert isinstance(bundle, ImageClassifierBundle) and bundle.labels == ("dark", "light")
    predictions = bundle.classify([png(np.full((8, 8, 3), v, np.uint8)) for v in (30, 210)])
    assert [prediction.label for prediction in predictions] == ["dark", "light"]
    config = saved(tmp_path / "run")
    assert (config.model.image_size, config.model.channels) == (8, 3)
    valid = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert {"accuracy", "macro_f1", "loss"} <= valid[-1].keys() and "top5" not in valid[-1]
    check_same(tmp_path / "run", configured(shades))
    with pytest.raises(UsageError, match="model_dim"):
        check_same(tmp_path / "run", configured(shades, model__model_dim=48))


def test_training_python_and_the_command_line_give_the_same_scores(tmp_path, capsys):
    """The evaluation of the saved model equals that of the step it was saved at, in every number,
    also if images are resized."""
    write_shades(tmp_path / "all", count=12, size=(12, 9))
    run, config = tmp_path / "run", configured(str(tmp_path / "all"), model__image_size=8)
    train(config, run)
    (best,) = [row for row in read_metrics(run / "metrics.jsonl", "valid") if row["is_best"]][-1:]
    bundle = load(run)
    held_out = TASK.held_out(bundle, run, saved(run), NO_OPTIONS)
    counts = []
    scores = TASK.evaluate(bundle, held_out, share=Share(counts.append))
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert list(scores.numbers()) == ["accuracy", "macro_f1", "matthews", "loss"]
    assert counts == [0] and registry.task("image_classification") is TASK
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(run), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    predictions = bundle.classify([image.data() for image in labelled_images(config.data).valid])
    pairs = list(zip(predictions, held_out.labels, strict=True))
    correct = sum(prediction.label == label for prediction, label in pairs)
    assert scores.counts == {"correct": correct, "images": len(pairs)}
    nats = [-np.log(prediction.probabilities[label]) for prediction, label in pairs]
    assert scores["loss"] == pytest.approx(np.mean(nats), rel=1e-5)
    assert scores.confusion.labels == bundle.labels
    for t, true in enumerate(bundle.labels):
        predicted = [prediction.label for prediction, label in pairs if label == true]
        assert scores.confusion.counts[t] == [predicted.count(label) for label in bundle.labels]


def test_an_unknown_class_is_refused_with_its_file(shades, tmp_path):
    train(configured(shades, training__steps=4), tmp_path / "run")
    bundle = load(tmp_path / "run")
    folder = write_shades(tmp_path / "other", count=1)
    (folder / "dark").rename(folder / "blue")
    with pytest.raises(DataError, match="class 'blue'") as error:
        TASK.evaluate(bundle, TASK.read(bundle, [folder], None, NO_OPTIONS))
    assert error.value.where.endswith("blue/0.png")
    with pytest.raises(DataError, match="no images to evaluate"):
        TASK.evaluate(bundle, examples_of_images([]))


def test_a_resumed_run_ends_with_the_same_bits(shades, tmp_path):
    changes = {"augmentation__mixup": 0.5, "model__dropout": 0.1, "augmentation__colour": 0.3}
    train(configured(shades, **changes), tmp_path / "whole")
    part = configured(shades, **changes, training__time=None)

    class Stop:
        def after_step(self, run, report):
            if run.step == 6:
                run.stop = "interrupted"

    train(part, tmp_path / "parts", observers=[Stop()])
    train(part, tmp_path / "parts")
    uninterrupted, resumed = (
        load(tmp_path / name).model.state_dict() for name in ("whole", "parts")
    )
    assert all(torch.equal(uninterrupted[key], resumed[key]) for key in uninterrupted)


def test_the_held_out_images_follow_from_their_content_alone(shades, tmp_path):
    data = configured(shades).data
    splits = labelled_images(data)
    assert splits.train and splits.valid and len(splits.train) + len(splits.valid) == 24
    contents = [image.data() for image in splits.train]
    assert not {image.data() for image in splits.valid} & set(contents)
    copy = write_shades(tmp_path / "copy", count=12)
    (copy / "dark" / "0.png").rename(copy / "dark" / "zzz.png")
    copied = labelled_images(configured(str(copy)).data)
    assert sorted(i.data() for i in copied.valid) == sorted(i.data() for i in splits.valid)


def test_the_only_image_of_a_class_is_not_held_out(shades, tmp_path):
    copy = write_shades(tmp_path / "copy", count=12)
    held_out = labelled_images(configured(str(copy)).data).valid[0]
    (copy / "rare").mkdir()
    Path(held_out.where).rename(copy / "rare" / "only.png")
    notes = []
    splits = labelled_images(configured(str(copy)).data, notes.append)
    assert [image.label for image in splits.train].count("rare") == 1
    assert "rare" not in {image.label for image in splits.valid}
    assert "to hold out stay in training" in notes[0]["text"]


def test_named_validation_images_are_all_used(shades, tmp_path):
    validation = write_shades(tmp_path / "other", count=2)
    config = configured(shades, data__valid=(str(validation),))
    splits = labelled_images(config.data)
    assert (len(splits.train), len(splits.valid)) == (24, 4)
    write_shades(tmp_path / "wrong" / "x", count=1)
    (tmp_path / "wrong" / "x" / "dark").rename(tmp_path / "wrong" / "x" / "blue")
    config = configured(shades, data__valid=(str(tmp_path / "wrong" / "x"),))
    with pytest.raises(DataError, match="the training images have no class 'blue'"):
        labelled_images(config.data)


def test_prepared_images_are_reused_and_normalised_by_their_mean(shades, tmp_path):
    events = []
    for _ in range(2):
        data = prepared(configured(shades), tmp_path, emit=events.append)
    reused = [event["reused"] for event in events if event["kind"] == "prepared"]
    assert reused == [False, False, True, True]
    pixels = torch.from_numpy(np.array(data.train.pixels))
    normalised = data.reader.normalised(pixels)
    assert_close(normalised.mean((0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    assert_close(normalised.std((0, 2, 3), correction=0), torch.ones(3), rtol=0, atol=1e-4)


def test_images_of_several_sizes_need_a_size(shades, tmp_path):
    write_shades(tmp_path / "more", count=2, size=(12, 9))
    both = (shades, str(tmp_path / "more"))
    with pytest.raises(UsageError, match="the images have 2 sizes"):
        prepared(configured(both), tmp_path / "a")
    config = configured(both, model__image_size=16, model__image_width=8, model__channels=1)
    data = prepared(config, tmp_path / "b")
    assert data.train.sizes == (1, 16, 8)


def test_grey_images_have_one_channel_and_dark_ones_are_reported(tmp_path):
    images = np.random.default_rng(0).integers(0, 17, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=images, labels=np.arange(40) % 11)
    events = []
    data = prepared(configured(str(tmp_path / "d.npz")), tmp_path, emit=events.append)
    assert data.train.sizes == (1, 8, 8)
    assert data.labels == tuple(str(i) for i in range(11))  # 2 before 10
    notes = " ".join(event["text"] for event in events if event["kind"] == "note")
    assert "brightest pixel of the training images is 16 of 255" in notes
    assert "11 classes; majority baseline" in notes


def test_patches_may_be_projected_by_principal_components_that_are_not_trained(shades, tmp_path):
    config = configured(shades, model__projection="pca")
    job = job_of(config, tmp_path)
    torch.manual_seed(0)
    model = job.build()
    project = model.vit.embedding.patches.project
    assert not project.weight.requires_grad
    gram = project.weight @ project.weight.T
    assert_close(gram, torch.eye(24) * gram[0, 0], rtol=0, atol=1e-4)
    train(config, tmp_path / "run")
    trained = load(tmp_path / "run").model.vit.embedding.patches.project
    assert_close(trained.weight, project.weight, rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """An encoder of 16 x 16 images with learned positions, not trained on the data."""
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("start") / "vit"
    reader = ImageReader(
        height=16, width=16, mean=(0.4, 0.5, 0.6), deviation=(0.3,) * 3, shorter=20
    )
    ImageEncoderBundle(ViT(ENCODER), reader).save(folder)
    return folder


def test_a_pretrained_model_determines_shape_weights_and_reader(shades, start, tmp_path):
    config = configured(shades, training__start=str(start), training__frozen=1)
    bundle = load(start)
    job = job_of(config, tmp_path, bundle)
    assert job.config.model.positions == "learned" and job.config.model.image_size == 16
    model = job.build()
    assert job.bundle(model).reader == bundle.reader
    for name, value in bundle.model.state_dict().items():
        assert torch.equal(model.vit.state_dict()[name], value), name
    frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
    assert (
        "vit.embedding.class_token" in frozen
        and "vit.encoder.blocks.0.attention.key.bias" in frozen
    )
    assert not any("blocks.1" in name or "head" in name for name in frozen)
    outcome = train(config, tmp_path / "run")
    assert outcome.step == 12
    check_same(tmp_path / "run", config)


def test_a_pretrained_model_may_get_larger_images_but_no_other_patch_size(shades, start, tmp_path):
    bundle = load(start)
    config = configured(shades, training__start=str(start), model__image_size=24)
    job = job_of(config, tmp_path / "a", bundle)
    reader = job.bundle(job.build()).reader
    assert (reader.height, reader.shorter, reader.mean) == (24, 30, bundle.reader.mean)
    assert job.build().vit.embedding.positions.vectors.shape == (36, 24)
    config = configured(shades, training__start=str(start), model__patch_size=8)
    with pytest.raises(UsageError, match="patch_size=8, but the pre-trained model has 4"):
        job_of(config, tmp_path / "b", bundle)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data__train": ()}, "no training images are named"),
        ({"data__train": "nowhere"}, "no such file or folder"),
        ({"training__frozen": 1}, "blocks of a pre-trained model, and none is named"),
        ({"model__projection": "pca", "training__start": "x"}, "has its own patch projection"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_before_anything_is_written(
    changes, reason, shades
):
    with pytest.raises(UsageError, match=reason):
        TASK.check(configured(shades, **changes))


def test_images_of_one_class_are_refused(tmp_path):
    folder = write_shades(tmp_path / "one")
    for path in (folder / "dark").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="all training images have the class 'light'"):
        labelled_images(configured(str(folder)).data)


def test_epochs_and_steps_must_agree(shades, tmp_path):
    job = job_of(configured(shades, training__steps=None, training__epochs=3.0), tmp_path)
    assert job.config.training.steps == 3 * job.batches.batches_per_epoch
    with pytest.raises(UsageError, match=r"disagrees with training\.epochs=3"):
        job_of(configured(shades, training__epochs=3.0, training__steps=1), tmp_path)


def test_top5_counts_a_class_among_the_five_most_probable():
    def scored(logits, true):
        labels = [str(i) for i in range(logits.shape[1])]
        return score_classes(logits, true, labels, "images", 5)

    logits = torch.eye(8) * 3 + torch.arange(8.0) / 10
    scores = scored(logits, [0, 1, 2, 3, 4, 5, 6, 0])
    assert scores["accuracy"] == 7 / 8 and scores["top5"] == 7 / 8
    scores = scored(logits, [0, 1, 2, 3, 4, 5, 6, 6])
    assert scores["top5"] == 1.0 and not scores.metric("loss").higher_is_better
    assert "top5" not in scored(logits[:, :5], [0] * 8)


def test_the_run_folder_describes_the_preprocessing_of_images(shades, tmp_path):
    train(configured(shades), tmp_path / "run")
    description = json.loads((tmp_path / "run" / "model" / "images.json").read_text())
    assert (description["height"], description["width"], len(description["mean"])) == (8, 8, 3)


@pytest.mark.slow
def test_digits_are_classified_as_accurately_as_the_recipe_states(tmp_path):
    pytest.importorskip("sklearn")
    outcome = train(recipe("vision-digits", ("test", {"machine.threads": 1})), tmp_path / "run")
    assert outcome.best >= 0.97
