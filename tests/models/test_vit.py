"""The Vision Transformer: sizes, inputs and initialisation."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.base.settings import override
from headway.blocks import ScaledPreNorm
from headway.models import (
    ViT,
    ViTClassifier,
    ViTClassifierConfig,
    ViTConfig,
    initialise_vit,
    parameter_count,
    vit_classifier,
)
from headway.models.vit_classifier import pooled

TINY = ViTConfig(
    model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, image_size=8, image_width=12, channels=3
)


@pytest.mark.parametrize(
    ("size", "encoder", "classifier"),
    [
        ("ti", 5_524_416, 5_717_416),
        ("s", 21_665_664, 22_050_664),
        ("b", 85_798_656, 86_567_656),
        ("l", 303_301_632, 304_326_632),
        ("dinov2-s", 22_056_576, None),
        ("dinov2-b", 86_580_480, None),
        ("dinov2-l", 304_368_640, None),
        ("dinov2-g", 1_136_480_768, None),
    ],
)
def test_sizes_have_the_papers_numbers_of_parameters(size, encoder, classifier):
    config = override(
        ViTClassifierConfig(num_classes=1000), ViTClassifierConfig.sizes[size], f"size {size}"
    )
    with torch.device("meta"):
        model = vit_classifier(config)
    assert parameter_count(model.vit) == encoder
    assert classifier in (None, parameter_count(model))


def test_patches_of_32_change_only_patches_and_positions():
    config = ViTConfig(**{**ViTConfig.sizes["b"], "patch_size": 32})
    with torch.device("meta"):
        assert parameter_count(ViTClassifier(ViT(config), 1000)) == 88_224_232


@torch.no_grad()
def test_an_image_is_a_class_token_and_its_patches():
    vit = ViT(TINY).eval()
    hidden = vit(torch.randn(2, 3, 8, 12))
    assert hidden.shape == (2, 1 + 6, 24)
    assert torch.equal(vit.class_vector(hidden), hidden[:, 0])
    assert torch.equal(vit.patch_vectors(hidden), hidden[:, 1:])
    larger = vit(torch.randn(2, 3, 13, 16))
    assert larger.shape == (2, 1 + 12, 24)


@torch.no_grad()
def test_registers_are_neither_class_nor_patches():
    vit = ViT(replace(TINY, registers=2)).eval()
    hidden = vit(torch.randn(2, 3, 8, 12))
    assert hidden.shape == (2, 9, 24)
    assert torch.equal(vit.patch_vectors(hidden), hidden[:, 3:])


@torch.no_grad()
def test_the_image_vector_is_that_of_the_class_token_the_patches_or_both():
    vit = ViT(TINY).eval()
    hidden = vit(torch.randn(2, 3, 8, 12))
    first, mean = hidden[:, 0], hidden[:, 1:].mean(1)
    assert torch.equal(pooled(vit, hidden, "first"), first)
    assert torch.equal(pooled(vit, hidden, "mean"), mean)
    assert torch.equal(pooled(vit, hidden, "both"), torch.cat((first, mean), 1))
    model = ViTClassifier(vit, 5, "both").eval()
    assert_close(model.classify(hidden), model.head(torch.cat((first, mean), 1)))


def test_a_classifier_drops_the_pooler_and_needs_a_class_token_to_read_one():
    vit = ViT(replace(TINY, pooler="tanh"))
    model = ViTClassifier(vit, 4)
    assert model.config.vit.pooler == "none" and vit.pooler is None
    bag = ViT(replace(TINY, class_token=False))
    with pytest.raises(ValueError, match="pooling=mean"):
        ViTClassifier(bag, 4)
    assert ViTClassifier(bag, 4, "mean")(torch.randn(2, 3, 8, 12)).shape == (2, 4)
    with pytest.raises(ValueError, match="no class token"):
        bag.class_vector(torch.randn(2, 6, 24))


def test_scaled_sublayers_are_initialised_with_their_scale():
    vit = ViT(replace(TINY, layer_scale=0.25))
    gains = [m.gain for m in vit.modules() if isinstance(m, ScaledPreNorm)]
    assert len(gains) == 4 and all(bool((gain == 0.25).all()) for gain in gains)


def test_init_weights_initialises_a_model_of_the_meta_device():
    with torch.device("meta"):
        model = vit_classifier(ViTClassifierConfig(vit=replace(TINY, registers=1, mask_token=True)))
    model = model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
    model.init_weights()
    assert all(bool(p.isfinite().all()) for p in model.parameters())
    model(torch.randn(2, 3, 8, 12)).sum().backward()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_heads": 5}, "multiple of num_heads=5"),
        ({"patch_size": 9}, "smaller than a patch"),
        ({"positions": "sinusoidal", "model_dim": 30}, "multiple of 4"),
        ({"class_token": False, "pooler": "tanh"}, "class_token"),
    ],
)
def test_invalid_shapes_are_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        replace(TINY, **changes)


@torch.no_grad()
def test_initialisation_copies_parameters_and_interpolates_positions():
    vit = ViT(replace(TINY, pooler="tanh", dropout=0.3)).eval()
    for parameter in vit.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    same = initialise_vit(vit, replace(TINY, dropout=0.1)).eval()
    images = torch.randn(2, 3, 8, 12)
    assert torch.equal(same(images), vit(images)) and same.config.dropout == 0.1
    same.embedding.class_token.add_(1)  # independent parameters
    assert not torch.equal(same(images), vit(images))
    larger = initialise_vit(vit, replace(TINY, image_size=16, image_width=16)).eval()
    images = torch.randn(2, 3, 16, 16)
    assert_close(larger(images), vit(images), rtol=0, atol=1e-5)
    assert larger.embedding.positions.vectors.shape == (16, 24)
    with pytest.raises(ValueError, match=r"encoder\.blocks\.2"):
        initialise_vit(vit, replace(TINY, num_layers=3))
