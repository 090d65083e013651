"""The real DINOv2-small on photographs: vectors and attention maps equal transformers'."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from headway.bundle import ImageEncoderBundle
from headway.data.images import to_pixels
from headway.inspection.image_attention import image_attention_of_heads
from headway.tasks.opening import load

transformers = pytest.importorskip("transformers")

WEIGHTS = Path(os.environ.get("HEADWAY_DATA", "")) / "weights" / "dinov2_small"
pytestmark = pytest.mark.skipif(
    "HEADWAY_DATA" not in os.environ or not WEIGHTS.is_dir(),
    reason=f"no real weights: {WEIGHTS}",
)
PHOTOGRAPHS = {
    "china.jpg": "sklearn",
    "flower.jpg": "sklearn",
    "astronaut.png": "skimage",
    "chelsea.png": "skimage",
    "coffee.png": "skimage",
}
"""File name -> the package that contains it."""


def photograph(name):
    """Return the path of a photograph; the packages are not imported."""
    package = PHOTOGRAPHS[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed: no {name}")
    folder = {"sklearn": "datasets/images", "skimage": "data"}[package]
    return Path(spec.origin).parent / folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the weights in float32 under the name that transformers expects."""
    folder = tmp_path_factory.mktemp("dinov2")
    shutil.copy(WEIGHTS / "config.json", folder)
    values = load_file(WEIGHTS / "model_fp16.safetensors")
    save_file({name: v.float() for name, v in values.items()}, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def both(folder):
    ours = load(folder)
    assert isinstance(ours, ImageEncoderBundle)
    reference = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    return ours, reference.eval()


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PHOTOGRAPHS)
@torch.no_grad()
def test_vectors_and_attention_of_photographs_equal_transformers(name, both):
    ours, reference = both
    pixels = to_pixels(photograph(name), name)
    images = ours.reader.batch([pixels])
    expected = reference(images, output_attentions=True)
    assert_close(ours.vit(images), expected.last_hidden_state, rtol=1e-4, atol=1e-4)
    attention = ours.attention(pixels)
    assert len(attention.maps) == len(expected.attentions) == 12
    for weights, expected_weights in zip(attention.maps.values(), expected.attentions, strict=True):
        assert_close(
            weights, expected_weights[0], rtol=0, atol=1e-4
        )  # 3e-5 where a weight is near 1


@torch.no_grad()
def test_a_finer_attention_map_of_a_photograph_equals_transformers(both):
    ours, reference = both
    pixels = photograph("china.jpg")
    attention = image_attention_of_heads(ours, pixels, size=308)
    images = ours.reader.normalised(
        torch.from_numpy(attention.pixels.transpose(2, 0, 1).copy())[None]
    )
    expected = reference(images, output_attentions=True).attentions[-1][0, :, 0, 1:]
    assert attention.maps.shape == (6, 22, 33)
    assert_close(attention.maps.flatten(1), expected, rtol=0, atol=1e-5)
