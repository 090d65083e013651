"""Image models as bundles: saving, loading, predictions."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.bundle import ImageEncoderBundle
from headway.models import ViT, ViTClassifier
from headway.tasks.image_classification.model import ImageClasses, ImageClassifierBundle
from tests.fixtures.image_classifiers import CONFIG, LABELS, READER, classifier
from tests.fixtures.images import pixels_of, png

IMAGES = [pixels_of(8, 8, seed=1), pixels_of(20, 11, seed=2), pixels_of(9, 30, 1, seed=3)]


@pytest.fixture
def saved(tmp_path):
    bundle = classifier()
    bundle.save(tmp_path / "model")
    return bundle, tmp_path / "model"


def test_a_saved_classifier_loads_as_itself(saved):
    bundle, folder = saved
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "MANIFEST.json",
        "config.json",
        "model.safetensors",
        "images.json",
        "classes.json",
    }
    reloaded = headway.load(folder, fast=False)
    assert isinstance(reloaded, ImageClassifierBundle)
    assert (reloaded.config, reloaded.labels, reloaded.reader) == (bundle.config, LABELS, READER)
    assert reloaded.classify(IMAGES) == bundle.classify(IMAGES)


def test_a_saved_encoder_loads_as_itself(tmp_path):
    bundle = ImageEncoderBundle(ViT(CONFIG), READER)
    bundle.save(tmp_path / "model")
    reloaded = headway.load(tmp_path / "model", fast=False)
    assert isinstance(reloaded, ImageEncoderBundle) and reloaded.config == CONFIG
    assert torch.equal(reloaded.embed(IMAGES), bundle.embed(IMAGES))


def test_the_class_of_an_image_of_any_size_does_not_depend_on_the_batch():
    bundle = classifier()
    batched = bundle.classify([*IMAGES, png(IMAGES[1])])
    for image, prediction in zip(IMAGES, batched, strict=False):
        (alone,) = bundle.classify([image])
        assert alone.label == prediction.label == next(iter(prediction.probabilities))
        assert alone.probabilities == pytest.approx(prediction.probabilities, abs=1e-6)
        assert sum(prediction.probabilities.values()) == pytest.approx(1)
        assert (
            list(prediction.probabilities.values())
            == sorted(prediction.probabilities.values())[::-1]
        )
    assert batched[3] == batched[1] and bundle.classify([]) == []
    with torch.no_grad():
        logits = bundle.model(READER.batch(IMAGES))
    best = [LABELS[i] for i in logits.argmax(1).tolist()]
    assert [prediction.label for prediction in batched[:3]] == best


def test_vectors_are_of_the_class_token_or_the_mean_of_the_patches():
    bundle = classifier()
    with torch.no_grad():
        hidden = bundle.vit(READER.batch(IMAGES))
    assert_close(bundle.embed(IMAGES, normalise=False), hidden[:, 0])
    assert_close(bundle.embed(IMAGES, pooling="mean", normalise=False), hidden[:, 2:].mean(1))
    assert_close(bundle.embed(IMAGES).norm(dim=1), torch.ones(3))
    bag = ImageEncoderBundle(ViT(replace(CONFIG, class_token=False)), READER)
    assert torch.equal(bag.embed(IMAGES), bag.embed(IMAGES, pooling="mean"))
    with pytest.raises(UsageError, match=r"no \[CLS\]"):
        bag.embed(IMAGES, pooling="first")


def test_attention_names_patches_by_their_positions():
    attention = classifier().attention(IMAGES[1], layers=("vit.encoder.blocks.1",))
    assert list(attention.maps) == ["vit.encoder.blocks.1.attention"]
    assert attention.source == ["[CLS]", "[R1]", "0,0", "0,1", "1,0", "1,1"] == attention.target
    (weights,) = attention.maps.values()
    assert weights.shape == (3, 6, 6)
    assert_close(weights.sum(-1), torch.ones(3, 6))


def test_a_single_image_instead_of_a_list_is_refused():
    for image in ("a.png", png(IMAGES[0])):
        with pytest.raises(UsageError, match="a list of images"):
            classifier().classify(image)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("images.json", {"height": 12, "width": 12, "shorter": 12}),
        ("classes.json", {"labels": ["ant", "bee", "dog", "cow"]}),
        ("classes.json", {"labels": ["ant", "bee", "bee", "cow"]}),
        ("classes.json", {"format": 7}),
        ("config.json", {"tokenizer": "0"}),
    ],
)
def test_files_that_do_not_belong_to_the_model_are_refused(file, change, saved):
    path = saved[1] / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError):
        headway.load(saved[1])


def test_a_reader_that_does_not_fit_the_model_is_refused():
    grey = replace(READER, mean=(0.5,), deviation=(0.3,))
    with pytest.raises(DataError, match="1 channels, but the model has 3"):
        ImageEncoderBundle(ViT(CONFIG), grey)
    small = replace(READER, height=3, width=3, shorter=None)
    with pytest.raises(DataError, match="less than one patch"):
        ImageEncoderBundle(ViT(CONFIG), small)
    with pytest.raises(DataError, match="3 labels, but the model has 4"):
        ImageClassifierBundle(ViTClassifier(ViT(CONFIG), 4), ImageClasses(READER, LABELS[:3]))


def test_pixels_are_normalised_as_the_reader_is_configured():
    """A shifted mean or another order of the channels fails this test."""
    image = np.zeros((8, 8, 3), np.uint8)
    image[:, :, 0], image[2, 5, 2] = 255, 51
    pixels = replace(READER, shorter=None).batch([image])
    assert pixels[0, 0, 0, 0].item() == pytest.approx(0.5 / 0.3)
    assert pixels[0, 2, 2, 5].item() == pytest.approx(-0.3 / 0.3)
    assert pixels[0, 2, 5, 2].item() == pytest.approx(-0.5 / 0.3)
