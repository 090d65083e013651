"""The real DINOv2-small on real photographs: its vectors and attention maps as transformers'."""

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
"""File -> the package that brings it."""


def photograph(name):
    """Where it stands; the packages are not run."""
    package = PHOTOGRAPHS[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed: no {name}")
    folder = {"sklearn": "datasets/images", "skimage": "data"}[package]
    return Path(spec.origin).parent / folder / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The weights in float32 under the name that transformers looks for."""
    folder = tmp_path_factory.mktemp("dinov2")
    shutil.copy(WEIGHTS / "config.json", folder)
    values = load_file(WEIGHTS / "model_fp16.safetensors")
    save_file({name: v.float() for name, v in values.items()}, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def both(folder):
    ours = load(folder)
    assert isinstance(ours, ImageEncoderBundle)
    other = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    return ours, other.eval()


@pytest.mark.parametrize("name", PHOTOGRAPHS)
@torch.no_grad()
def test_real_photographs_are_seen_as_by_transformers(name, both):
    ours, other = both
    pixels = to_pixels(photograph(name), name)
    images = ours.reader.batch([pixels])
    expected = other(images, output_attentions=True)
    assert_close(ours.vit(images), expected.last_hidden_state, rtol=1e-4, atol=1e-4)
    attention = ours.attention(pixels)
    assert len(attention.maps) == len(expected.attentions) == 12
    for weights, reference in zip(attention.maps.values(), expected.attentions, strict=True):
        assert_close(weights, reference[0], rtol=0, atol=1e-4)  # 3e-5 where a weight is near 1


@torch.no_grad()
def test_a_finer_map_of_a_whole_photograph_is_that_of_transformers(both):
    ours, other = both
    pixels = photograph("china.jpg")
    looks = image_attention_of_heads(ours, pixels, size=308)
    images = ours.reader.normalised(torch.from_numpy(looks.pixels.transpose(2, 0, 1).copy())[None])
    expected = other(images, output_attentions=True).attentions[-1][0, :, 0, 1:]
    assert looks.maps.shape == (6, 22, 33)
    assert_close(looks.maps.flatten(1), expected, rtol=0, atol=1e-5)
