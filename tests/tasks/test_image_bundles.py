"""Models of pictures as bundles: saved, loaded, asked."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import headway
from headway.bundle import ImageEncoderBundle
from headway.errors import DataError, UsageError
from headway.models import ViT, ViTClassifier
from headway.tasks.image_classification.bundle import ImageClasses, ImageClassifierBundle
from tests.fixtures.image_classifiers import CONFIG, LABELS, READER, classifier
from tests.fixtures.images import pixels_of, png

PIXELS = [pixels_of(8, 8, seed=1), pixels_of(20, 11, seed=2), pixels_of(9, 30, 1, seed=3)]


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
    again = headway.load(folder, fast=False)
    assert isinstance(again, ImageClassifierBundle)
    assert (again.config, again.labels, again.reader) == (bundle.config, LABELS, READER)
    assert again.classify(PIXELS) == bundle.classify(PIXELS)


def test_a_saved_encoder_loads_as_itself(tmp_path):
    bundle = ImageEncoderBundle(ViT(CONFIG), READER)
    bundle.save(tmp_path / "model")
    again = headway.load(tmp_path / "model", fast=False)
    assert isinstance(again, ImageEncoderBundle) and again.config == CONFIG
    assert torch.equal(again.embed(PIXELS), bundle.embed(PIXELS))


def test_pictures_of_any_size_are_classified_as_if_alone():
    bundle = classifier()
    together = bundle.classify([*PIXELS, png(PIXELS[1])])
    for picture, found in zip(PIXELS, together, strict=False):
        (alone,) = bundle.classify([picture])
        assert alone.label == found.label == next(iter(found.probabilities))
        assert alone.probabilities == pytest.approx(found.probabilities, abs=1e-6)
        assert sum(found.probabilities.values()) == pytest.approx(1)
        assert list(found.probabilities.values()) == sorted(found.probabilities.values())[::-1]
    assert together[3] == together[1] and bundle.classify([]) == []
    with torch.no_grad():
        logits = bundle.model(READER.batch(PIXELS))
    best = [LABELS[i] for i in logits.argmax(1).tolist()]
    assert [each.label for each in together[:3]] == best


def test_vectors_are_of_the_class_token_or_the_mean_of_the_patches():
    bundle = classifier()
    with torch.no_grad():
        hidden = bundle.vit(READER.batch(PIXELS))
    assert_close(bundle.embed(PIXELS, normalise=False), hidden[:, 0])
    assert_close(bundle.embed(PIXELS, pooling="mean", normalise=False), hidden[:, 2:].mean(1))
    assert_close(bundle.embed(PIXELS).norm(dim=1), torch.ones(3))
    bag = ImageEncoderBundle(ViT(replace(CONFIG, class_token=False)), READER)
    assert torch.equal(bag.embed(PIXELS), bag.embed(PIXELS, pooling="mean"))
    with pytest.raises(UsageError, match=r"no \[CLS\]"):
        bag.embed(PIXELS, pooling="first")


def test_attention_names_its_tokens_by_their_places():
    seen = classifier().attention(PIXELS[1], ("vit.encoder.blocks.1",))
    assert list(seen.maps) == ["vit.encoder.blocks.1.attention"]
    assert seen.source == ["[CLS]", "[R1]", "0,0", "0,1", "1,0", "1,1"] == seen.target
    (weights,) = seen.maps.values()
    assert weights.shape == (3, 6, 6)
    assert_close(weights.sum(-1), torch.ones(3, 6))


def test_one_picture_is_no_list_of_pictures():
    for wrong in ("a.png", png(PIXELS[0])):
        with pytest.raises(UsageError, match="a list of images"):
            classifier().classify(wrong)


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
def test_what_was_not_trained_together_is_refused(file, change, saved):
    path = saved[1] / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError):
        headway.load(saved[1])


def test_a_reader_of_other_pictures_than_the_model_sees_is_refused():
    grey = replace(READER, mean=(0.5,), deviation=(0.3,))
    with pytest.raises(DataError, match="1 channels, but the model has 3"):
        ImageEncoderBundle(ViT(CONFIG), grey)
    small = replace(READER, height=3, width=3, shorter=None)
    with pytest.raises(DataError, match="less than one patch"):
        ImageEncoderBundle(ViT(CONFIG), small)
    with pytest.raises(DataError, match="3 labels, but the model has 4"):
        ImageClassifierBundle(ViTClassifier(ViT(CONFIG), 4), ImageClasses(READER, LABELS[:3]))


def test_brightness_is_seen_as_the_reader_says():
    """A shifted mean or another order of the channels must not pass."""
    picture = np.zeros((8, 8, 3), np.uint8)
    picture[:, :, 0], picture[2, 5, 2] = 255, 51
    found = replace(READER, shorter=None).batch([picture])
    assert found[0, 0, 0, 0].item() == pytest.approx(0.5 / 0.3)
    assert found[0, 2, 2, 5].item() == pytest.approx(-0.3 / 0.3)
    assert found[0, 2, 5, 2].item() == pytest.approx(-0.5 / 0.3)
