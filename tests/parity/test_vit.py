"""ViT, DINO and DINOv2 compared with transformers': read from its folders, and written."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.bundle import ImageEncoderBundle
from headway.data.image_reader import ImageReader
from headway.interop import build, read, read_image_reader, read_labels, write, write_image_model
from headway.interop.preprocessor_config import write_image_reader
from headway.models import ViT, ViTClassifier, ViTConfig, parameter_count
from headway.tasks.image_classification.model import ImageClassifierBundle
from tests.fixtures.random_weights import with_noise

B, CLASSES = 3, 5
SHAPE = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 20,
    "patch_size": 4,
    "num_channels": 3,
}
VIT = {**SHAPE, "intermediate_size": 40}
FAMILIES = {
    "vit": (transformers.ViTConfig, VIT),
    "vit relu, grey": (transformers.ViTConfig, {**VIT, "hidden_act": "relu", "num_channels": 1}),
    "vit wide": (
        transformers.ViTConfig,
        {**VIT, "image_size": [12, 20], "patch_size": [3, 5], "layer_norm_eps": 0.1},
    ),
    "vit with a rest": (transformers.ViTConfig, {**VIT, "image_size": 22}),
    "dinov2": (transformers.Dinov2Config, {**SHAPE, "mlp_ratio": 2, "layerscale_value": 0.3}),
    "dinov2 gated": (transformers.Dinov2Config, {**SHAPE, "use_swiglu_ffn": True}),
    "dinov2 without a mask": (transformers.Dinov2Config, {**SHAPE, "use_mask_token": False}),
}
STEMS = {"vit": "ViT", "dinov2": "Dinov2"}
EVERY = [(name, end) for name in FAMILIES for end in ("Model", "ForImageClassification")]


def theirs(name, end):
    kind, shape = FAMILIES[name]
    labels = {"id2label": {i: f"kind {i}" for i in range(CLASSES)}} if end != "Model" else {}
    return with_noise(
        getattr(transformers, STEMS[name.split()[0]] + end)(kind(**{**shape, **labels}))
    )


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


@pytest.mark.parametrize(("name", "end"), EVERY)
def test_a_model_saved_by_transformers_has_the_same_outputs(name, end, tmp_path):
    model = theirs(name, end)
    model.save_pretrained(tmp_path)
    ours = build(*read(tmp_path))
    if end == "Model":
        assert ours.config.pooler == ("tanh" if name.startswith("vit") else "none")
        assert read_labels(tmp_path) == ()
    else:
        assert read_labels(tmp_path) == tuple(f"kind {i}" for i in range(CLASSES))
    agree(ours, model)


@pytest.mark.parametrize(("name", "end"), EVERY)
def test_a_round_trip_changes_no_bit_of_their_file(name, end, tmp_path):
    theirs(name, end).save_pretrained(tmp_path / "theirs")
    kind = name.split()[0]
    assert write(build(*read(tmp_path / "theirs")), tmp_path / "ours", kind) == STEMS[kind] + end
    first, second = (load_file(tmp_path / p / "model.safetensors") for p in ("theirs", "ours"))
    assert set(first) == set(second)
    for key, tensor in first.items():
        assert torch.equal(second[key], tensor), key


TINY = ViTConfig(
    model_dim=24, num_heads=4, ffn_dim=48, num_layers=3, image_size=20, patch_size=4, channels=3
)
DINOV2 = replace(TINY, layer_scale=0.2, mask_token=True)
WRITTEN = {
    "ViTModel": replace(TINY, pooler="tanh", activation="silu", dropout=0.1),
    "Dinov2Model": replace(DINOV2, ffn_dim=64, activation="swiglu"),
    "ViTForImageClassification": TINY,
    "Dinov2ForImageClassification": DINOV2,
}
POOLING = {"ViTForImageClassification": "first", "Dinov2ForImageClassification": "both"}


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


@pytest.mark.parametrize("name", ["vit", "dinov2"])
@torch.no_grad()
def test_images_of_another_size_have_interpolated_positions(name, tmp_path):
    model = theirs(name, "Model")
    model.save_pretrained(tmp_path)
    ours = build(*read(tmp_path))
    for size in ((28, 36), (12, 8), (20, 24)):
        images = torch.randn(B, 3, *size)
        expected = model(images, **({"interpolate_pos_encoding": True} if name == "vit" else {}))
        assert_close(ours(images), expected.last_hidden_state, rtol=0, atol=1e-5)


@torch.no_grad()
def test_masked_patches_are_masked_as_in_transformers(tmp_path):
    model = theirs("dinov2", "Model")
    model.save_pretrained(tmp_path)
    ours, images = build(*read(tmp_path)), torch.randn(B, 3, 20, 20)
    hidden = torch.rand(B, 25) < 0.4
    expected = model(images, bool_masked_pos=hidden).last_hidden_state
    assert_close(ours.encode(images, hidden), expected, rtol=0, atol=1e-5)
    assert (ours.encode(images) - expected).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"qkv_bias": False}, "qkv_bias"),
        ({"patch_size": 40}, "smaller than a patch"),
        ({"image_size": [20, 20, 20]}, "image_size"),
        ({"num_channels": 4}, "embeddings.patch_embeddings"),
        ({"num_attention_heads": 5}, "multiple of num_heads"),
    ],
)
def test_unsupported_fields_of_a_config_are_refused_by_name(change, reason, tmp_path):
    theirs("vit", "Model").save_pretrained(tmp_path)
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


# image processors


def photograph(y, x):
    """Return a smooth image with fine lines, on which resampling methods differ."""
    rows, columns = np.mgrid[:y, :x]
    waves = [np.sin(rows / 3 + c) + np.cos(columns * (c + 1) / 2) for c in range(3)]
    return np.rint(np.stack(waves, 2) * 60 + 127).astype(np.uint8)


PROCESSORS = {
    "vit": transformers.ViTImageProcessorPil(size={"height": 18, "width": 24}),
    "vit, other numbers": transformers.ViTImageProcessorPil(
        size={"height": 20, "width": 20},
        resample=3,
        image_mean=[0.1, 0.2, 0.3],
        image_std=[0.4, 0.3, 0.2],
        rescale_factor=1 / 127.5,
    ),
    "dinov2": transformers.BitImageProcessorPil(
        size={"shortest_edge": 32},
        crop_size={"height": 28, "width": 28},
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    ),
    "not normalised": transformers.ViTImageProcessorPil(
        size={"height": 9, "width": 9}, do_normalize=False
    ),
}


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("size", [(50, 37), (33, 64)])
def test_images_are_read_as_by_transformers_processors(name, size, tmp_path):
    PROCESSORS[name].save_pretrained(tmp_path)
    reader = read_image_reader(tmp_path, ViTConfig(), "vit")
    pixels = photograph(*size)
    expected = PROCESSORS[name](Image.fromarray(pixels), return_tensors="pt").pixel_values
    assert_close(reader.batch([pixels]), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shorter", [None, 32])
def test_an_image_reader_written_by_us_reads_the_same_in_transformers(shorter, tmp_path):
    reader = ImageReader(
        height=28,
        width=28,
        mean=(0.5, 0.4, 0.3),
        deviation=(0.2, 0.3, 0.1),
        shorter=shorter,
        resampling="bicubic" if shorter else "lanczos",
    )
    write_image_reader(reader, tmp_path)
    assert read_image_reader(tmp_path, ViTConfig(), "vit") == reader
    pixels = photograph(41, 66)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path, use_fast=False)
    expected = processor(Image.fromarray(pixels), return_tensors="pt").pixel_values
    assert_close(reader.batch([pixels]), expected, rtol=0, atol=1e-5)


def test_an_exported_classifier_predicts_the_same_in_transformers_from_pixels(tmp_path):
    reader = ImageReader(height=20, width=20, mean=(0.5,) * 3, deviation=(0.25,) * 3, shorter=24)
    model, labels = written("ViTForImageClassification"), ("ant", "bee", "cow", "dog", "elk")
    architecture = write_image_model(model, reader, tmp_path / "hf", labels=labels)
    assert architecture == "ViTForImageClassification"
    exported_model = transformers.AutoModelForImageClassification.from_pretrained(
        tmp_path / "hf"
    ).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "hf", use_fast=False)
    ours = headway.load(tmp_path / "hf")
    assert isinstance(ours, ImageClassifierBundle) and ours.labels == labels
    for size in ((31, 47), (20, 20)):
        pixels = photograph(*size)
        with torch.no_grad():
            logits = exported_model(
                **processor(Image.fromarray(pixels), return_tensors="pt")
            ).logits[0]
        probabilities = ours.classify([pixels])[0].probabilities
        for i, probability in enumerate(logits.softmax(-1).tolist()):
            assert probabilities[exported_model.config.id2label[i]] == pytest.approx(
                probability, abs=1e-5
            )


# real weights


@pytest.fixture
def dinov2(real_data, tmp_path):
    """Return a Hugging Face folder of the real DINOv2-small."""
    for name, file_name in (
        ("config.json", "config.json"),
        ("model_fp16.safetensors", "model.safetensors"),
    ):
        (tmp_path / file_name).symlink_to(real_data(f"weights/dinov2_small/{name}"))
    return tmp_path


@torch.no_grad()
def test_the_real_dinov2_has_the_same_outputs_as_in_transformers(dinov2):
    bundle = headway.load(dinov2)
    assert isinstance(bundle, ImageEncoderBundle)
    assert parameter_count(bundle.model) == 22_056_576 and bundle.config.grid == (37, 37)
    reference = transformers.Dinov2Model.from_pretrained(dinov2, dtype=torch.float32).eval()
    pixels = photograph(300, 280)
    images = bundle.reader.batch([pixels])
    assert images.shape == (1, 3, 224, 224)
    expected = reference(images).last_hidden_state
    assert_close(bundle.model(images), expected, rtol=0, atol=1e-4)
    vector = bundle.embed([pixels], normalise=False)
    assert_close(vector, expected[:, 0], rtol=0, atol=1e-4)
    attention = bundle.attention(pixels, layers=("encoder.blocks.11",))
    (weights,) = attention.maps.values()
    assert weights.shape == (6, 257, 257) and attention.source[:3] == ["[CLS]", "0,0", "0,1"]
