"""Folders of image encoders with their processors: pixels, predictions, inspection, weights."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch.testing import assert_close

import headway
from headway.bundle import ImageEncoderBundle
from headway.data.image_reader import ImageReader
from headway.inspection.watch import watch
from headway.interop import read_image_reader, write_image_model
from headway.interop.preprocessor_config import write_image_reader
from headway.models import ViT, ViTClassifier, ViTConfig, parameter_count
from headway.tasks.image_classification.model import ImageClassifierBundle
from headway.transforms.quantize import quantize
from tests.fixtures.image_families import CLASSES, STEMS, theirs
from tests.fixtures.random_weights import with_noise

TINY = ViTConfig(
    model_dim=24, num_heads=4, ffn_dim=48, num_layers=3, image_size=20, patch_size=4, channels=3
)


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
    model = with_noise(ViTClassifier(ViT(TINY), CLASSES))
    labels = ("ant", "bee", "cow", "dog", "elk")
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


OPENED = {
    "DeiTForImageClassificationWithTeacher": ("deit", transformers.DeiTImageProcessorPil),
    "BeitForImageClassification": ("beit", transformers.BeitImageProcessorPil),
}


@pytest.mark.parametrize("architecture", OPENED)
@torch.no_grad()
def test_a_folder_is_classified_inspected_and_quantised(architecture, tmp_path):
    name, processor = OPENED[architecture]
    model = theirs(name, architecture.removeprefix(STEMS[name]))
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path)
    side = {"height": 20, "width": 20}
    read_image = processor(size={"height": 24, "width": 24}, do_center_crop=True, crop_size=side)
    read_image.save_pretrained(tmp_path)
    pixels = photograph(31, 47)
    expected = model(
        **read_image(Image.fromarray(pixels), return_tensors="pt"), output_attentions=True
    )
    bundle = headway.load(tmp_path)
    (classified,) = bundle.classify([pixels])
    probabilities = expected.logits.softmax(-1)[0].tolist()
    assert [classified.probabilities[label] for label in bundle.labels] == pytest.approx(
        probabilities, abs=1e-5
    )
    frame = watch(bundle, pixels)
    for ours, weights in zip(frame.maps[0].weights, expected.attentions, strict=True):
        assert_close(ours, weights[0], rtol=0, atol=1e-5)
    (side_of_image,) = frame.sides.values()
    assert side_of_image.num_prefix_tokens == (2 if name == "deit" else 1)
    quantize(bundle.model, "int8")
    (again,) = bundle.classify([pixels])
    assert list(again.probabilities.values()) == pytest.approx(
        list(classified.probabilities.values()), abs=0.05
    )


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
