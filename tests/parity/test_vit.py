"""Every family of image encoders beside transformers: read from its folders, and written."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.testing import assert_close

from headway.base.errors import DataError, UsageError
from headway.interop import build, read, read_labels, write
from headway.models import ViT, ViTClassifier, ViTConfig
from tests.fixtures.image_families import CLASSES, FAMILIES, POOLERS, STEMS, VIT, theirs
from tests.fixtures.random_weights import with_noise

B = 3
EVERY = [
    *((name, "Model") for name in FAMILIES),
    *((name, "ForImageClassification") for name in FAMILIES if not name.startswith("dinov3")),
    ("deit", "ForImageClassificationWithTeacher"),
]


def some_images(config):
    return torch.randn(B, config.channels, *config.image)


@torch.no_grad()
def agree(ours, reference):
    """Assert that both models have the same outputs for the same images."""
    if isinstance(ours, ViTClassifier):
        images = some_images(ours.config.vit)
        output = ours(images)
        assert output.shape == (B, CLASSES)
        assert_close(output, reference(images).logits, rtol=0, atol=1e-5)
        return
    images = some_images(ours.config)
    expected, output = reference(images), ours(images)
    assert_close(output, expected.last_hidden_state, rtol=0, atol=1e-5)
    if ours.pooler is not None:
        assert_close(ours.pool(output), expected.pooler_output, rtol=0, atol=1e-5)
    if ours.config.final_norm == "mean":
        assert_close(ours.mean_vector(output), expected.pooler_output, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "end"), EVERY)
def test_a_model_saved_by_transformers_has_the_same_outputs(name, end, tmp_path):
    model = theirs(name, end)
    model.save_pretrained(tmp_path)
    ours = build(*read(tmp_path))
    if end == "Model":
        assert ours.config.pooler == ("tanh" if name.split()[0] in POOLERS else "none")
        assert read_labels(tmp_path) == ()
    else:
        assert read_labels(tmp_path) == tuple(f"kind {i}" for i in range(CLASSES))
    agree(ours, model)


@pytest.mark.parametrize(("name", "end"), EVERY)
def test_a_round_trip_changes_no_bit_of_their_file(name, end, tmp_path):
    theirs(name, end).save_pretrained(tmp_path / "theirs")
    kind = name.split()[0]
    family = FAMILIES[name][0].model_type
    assert write(build(*read(tmp_path / "theirs")), tmp_path / "ours", family) == STEMS[kind] + end
    first, second = (load_file(tmp_path / p / "model.safetensors") for p in ("theirs", "ours"))
    assert set(first) == set(second)
    for key, tensor in first.items():
        assert torch.equal(second[key], tensor), key


TINY = ViTConfig(
    model_dim=24, num_heads=4, ffn_dim=48, num_layers=3, image_size=20, patch_size=4, channels=3
)
DINOV2 = replace(TINY, layer_scale=0.2, mask_token=True)
DEIT = replace(TINY, distillation_token=True)
DINOV3_OURS = replace(
    TINY,
    num_heads=6,
    positions="rotary",
    registers=2,
    key_bias=False,
    mask_token=True,
    layer_scale=0.2,
    activation="swiglu",
)
BEIT_OURS = replace(TINY, positions="relative", key_bias=False, final_norm="mean", layer_scale=0.2)
WRITTEN = {
    "ViTModel": replace(TINY, pooler="tanh", activation="silu", dropout=0.1),
    "Dinov2Model": replace(DINOV2, ffn_dim=64, activation="swiglu"),
    "ViTForImageClassification": TINY,
    "Dinov2ForImageClassification": DINOV2,
    "DeiTModel": replace(DEIT, pooler="tanh"),
    "DeiTForImageClassification": DEIT,
    "DeiTForImageClassificationWithTeacher": DEIT,
    "DINOv3ViTModel": DINOV3_OURS,
    "BeitModel": BEIT_OURS,
    "BeitForImageClassification": BEIT_OURS,
}
POOLING = {
    "ViTForImageClassification": "first",
    "Dinov2ForImageClassification": "both",
    "DeiTForImageClassification": "first",
    "DeiTForImageClassificationWithTeacher": "distilled",
    "BeitForImageClassification": "mean",
}


def written(architecture):
    vit = ViT(WRITTEN[architecture])
    pooling = POOLING.get(architecture)
    return with_noise(vit if pooling is None else ViTClassifier(vit, CLASSES, pooling))


@pytest.mark.parametrize("architecture", WRITTEN)
def test_a_model_written_by_us_has_the_same_outputs_in_transformers(architecture, tmp_path):
    model = written(architecture)
    assert write(model, tmp_path) == architecture
    reference, report = getattr(transformers, architecture).from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values()), report
    agree(model, reference.eval())


def test_a_folder_of_dino_has_no_pooler_and_is_written_without_one(tmp_path):
    model = transformers.ViTModel(transformers.ViTConfig(**VIT), add_pooling_layer=False)
    with_noise(model).save_pretrained(tmp_path / "dino")
    ours = build(*read(tmp_path / "dino"))
    assert ours.config.pooler == "none" and ours.pooler is None
    agree(ours, model)
    write(ours, tmp_path / "again")
    keys = load_file(tmp_path / "again" / "model.safetensors").keys()
    assert not any("pooler" in key for key in keys)


SIZES = ((28, 36), (12, 8), (20, 24))
SQUARES = ((28, 28), (12, 12))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("vit", SIZES),
        ("dinov2", SIZES),
        ("deit", SIZES),
        ("dinov3", SQUARES),
        ("beit", SQUARES),
    ],
)
@torch.no_grad()
def test_images_of_another_size_have_interpolated_positions(name, sizes, tmp_path):
    model = theirs(name, "Model")
    model.save_pretrained(tmp_path)
    ours = build(*read(tmp_path))
    switch = {"interpolate_pos_encoding": True} if name in POOLERS else {}
    for size in sizes:
        images = torch.randn(B, 3, *size)
        expected = model(images, **switch)
        assert_close(ours(images), expected.last_hidden_state, rtol=0, atol=1e-5)
    if sizes is SQUARES:
        with pytest.raises(ValueError, match="20 patches are not the grid of 5 x 5"):
            ours(torch.randn(B, 3, 16, 20))


@pytest.mark.parametrize("name", ["dinov2", "beit with a mask"])
@torch.no_grad()
def test_masked_patches_are_masked_as_in_transformers(name, tmp_path):
    model = theirs(name, "Model")
    model.save_pretrained(tmp_path)
    ours, images = build(*read(tmp_path)), torch.randn(B, 3, 20, 20)
    hidden = torch.rand(B, 25) < 0.4
    expected = model(images, bool_masked_pos=hidden).last_hidden_state
    assert_close(ours.encode(images, hidden), expected, rtol=0, atol=1e-5)
    assert (ours.encode(images) - expected).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("vit", {"qkv_bias": False}, "qkv_bias"),
        ("vit", {"patch_size": 40}, "smaller than a patch"),
        ("vit", {"image_size": [20, 20, 20]}, "image_size"),
        ("vit", {"num_channels": 4}, "embeddings.patch_embeddings"),
        ("vit", {"num_attention_heads": 5}, "multiple of num_heads"),
        ("deit", {"pooler_act": "relu"}, "pooler_act"),
        ("dinov3", {"rope_theta": 50.0}, "rope_theta"),
        ("dinov3", {"num_register_tokens": 0}, "num_register_tokens"),
        ("dinov3", {"value_bias": False}, "value_bias"),
        ("beit", {"use_shared_relative_position_bias": True}, "use_shared_relative_position_bias"),
        ("beit", {"use_absolute_position_embeddings": True}, "use_absolute_position_embeddings"),
        ("beit", {"use_mean_pooling": False}, "use_mean_pooling"),
        ("beit", {"layer_scale_init_value": 0}, "layer_scale_init_value"),
        ("beit", {"image_size": [20, 24]}, "image_size"),
    ],
)
def test_unsupported_fields_of_a_config_are_refused_by_name(name, change, reason, tmp_path):
    theirs(name, "Model").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=reason.replace(".", r"\.")):
        read(tmp_path)


def test_models_that_transformers_cannot_represent_are_refused_with_reasons(tmp_path):
    config = replace(TINY, positions="sinusoidal", registers=2, layer_scale=0.1)
    with pytest.raises(UsageError, match=r"vit: .*positions=sinusoidal.*\n?.*registers=2"):
        write(ViT(config), tmp_path)
    with pytest.raises(UsageError, match="pooling=mean"):
        write(ViTClassifier(ViT(TINY), 3, "mean"), tmp_path)
    assert not list(tmp_path.iterdir())
