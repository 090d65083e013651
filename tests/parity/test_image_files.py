"""Image files of all kinds, read for models of Hugging Face folders, compared with transformers'
processors, to which the path of the file is given."""

import json
import warnings

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, HeadwayWarning
from headway.bundle.image_encoder import batches_of
from headway.data.image_corpus import prepare_images
from headway.data.image_reader import ImageReader
from headway.data.image_sources import read_images
from headway.interop import read_image_reader
from headway.models import ViTConfig
from tests.fixtures.images import pixels_of, saved
from tests.fixtures.random_weights import with_noise

COLOUR = Image.fromarray(pixels_of(13, 17))
ALPHA = Image.fromarray(pixels_of(13, 17, 4), "RGBA")
GREY = Image.fromarray(pixels_of(13, 17, 1)[..., 0])
GREY_ALPHA = Image.fromarray(pixels_of(13, 17, 2), "LA")
WIDE = Image.fromarray((pixels_of(13, 17, 1)[..., 0].astype(np.uint16) * 3) % 400)
PALETTE = COLOUR.quantize(16)
BITS = GREY.convert("1")


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


FILES = {
    "colour.png": saved(COLOUR),
    "grey.png": saved(GREY),
    "transparent.png": saved(ALPHA),
    "transparent_grey.png": saved(GREY_ALPHA),
    "one_colour_transparent.png": saved(COLOUR, transparency=(1, 2, 3)),
    "one_grey_transparent.png": saved(GREY, transparency=3),
    "palette.png": saved(PALETTE),
    "palette_transparent.png": saved(PALETTE, transparency=3),
    "palette_many_transparent.png": saved(PALETTE, transparency=bytes(range(0, 256, 16))),
    "sixteen_bits.png": saved(WIDE),
    "black_and_white.png": saved(BITS),
    "turned.png": saved(COLOUR, exif=turned(6)),
    "animated.png": saved(COLOUR, save_all=True, append_images=[COLOUR.rotate(180)]),
    "colour.jpg": saved(COLOUR, "JPEG"),
    "grey.jpg": saved(GREY, "JPEG"),
    "inks.jpg": saved(COLOUR.convert("CMYK"), "JPEG"),
    "turned.jpg": saved(COLOUR, "JPEG", exif=turned(8)),
    "mirrored.jpg": saved(COLOUR, "JPEG", exif=turned(5)),
    "progressive.jpg": saved(COLOUR, "JPEG", progressive=True),
    "tiny.png": saved(COLOUR.resize((1, 1))),
    "narrow.png": saved(COLOUR.resize((1, 200))),
    "large.jpg": saved(COLOUR.resize((1200, 900)), "JPEG"),
    "colour.webp": saved(COLOUR, "WEBP"),
    "transparent.webp": saved(ALPHA, "WEBP", lossless=True, exact=True),
    "colour.gif": saved(COLOUR, "GIF"),
    "transparent.gif": saved(PALETTE, "GIF", transparency=3),
    "animated.gif": saved(PALETTE, "GIF", save_all=True, append_images=[PALETTE.rotate(180)]),
    "colour.bmp": saved(COLOUR, "BMP"),
    "colour.tiff": saved(COLOUR, "TIFF"),
    "turned.tiff": saved(COLOUR, "TIFF", exif=turned(6)),
    "inks.tiff": saved(COLOUR.convert("CMYK"), "TIFF"),
    "packed.tiff": saved(ALPHA, "TIFF", compression="tiff_lzw"),
    "sixteen_bits.tiff": saved(WIDE, "TIFF"),
}
PROCESSORS = {
    "vit": transformers.ViTImageProcessorPil(size={"height": 18, "width": 24}),
    "vit to colour": transformers.ViTImageProcessorPil(
        size={"height": 9, "width": 9}, do_convert_rgb=True
    ),
    "bit": transformers.BitImageProcessorPil(
        size={"shortest_edge": 16}, crop_size={"height": 14, "width": 14}
    ),
    "clip": transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 15}, crop_size={"height": 15, "width": 15}
    ),
    "siglip": transformers.SiglipImageProcessorPil(size={"height": 12, "width": 12}),
}


def reader_of(folder, values):
    """Return the reader for a preprocessor_config.json with these values."""
    (folder / "preprocessor_config.json").write_text(json.dumps(values))
    return read_image_reader(folder, ViTConfig(), "vit")


def read(reader, folder, name="x.png", data=FILES["colour.png"]):
    """Return the model input for a file."""
    path = folder / name
    path.write_bytes(data)
    images = batches_of(reader, [path], torch.device("cpu"))
    return next(images)


@pytest.mark.filterwarnings("ignore:images with 16 bits", "ignore:unclosed file", "ignore:Palette")
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_by_transformers(name, processor, tmp_path):
    theirs = PROCESSORS[processor]
    ours = read(reader_of(tmp_path, theirs.to_dict()), tmp_path, name, FILES[name])
    expected = theirs(str(tmp_path / name), return_tensors="pt").pixel_values
    assert_close(ours, expected, rtol=0, atol=1e-5)


def test_a_transparent_image_has_the_probabilities_of_the_pipeline(tmp_path):
    config = transformers.ViTConfig(
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=20,
        patch_size=4,
        id2label={i: f"kind {i}" for i in range(3)},
    )
    with_noise(transformers.ViTForImageClassification(config)).save_pretrained(tmp_path)
    processor = transformers.ViTImageProcessorPil(size={"height": 20, "width": 20})
    processor.save_pretrained(tmp_path)
    (tmp_path / "x.png").write_bytes(FILES["transparent.png"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = transformers.pipeline("image-classification", str(tmp_path))
    expected = {row["label"]: row["score"] for row in pipeline(str(tmp_path / "x.png"))}
    (classified,) = headway.load(tmp_path).classify([tmp_path / "x.png"])
    assert classified.probabilities == pytest.approx(expected, abs=1e-5)


VALUES = {
    "no values": {},
    "defaults of vit": {"image_processor_type": "ViTImageProcessor"},
    "defaults of vit, former name": {"feature_extractor_type": "ViTFeatureExtractor"},
    "defaults of a fast processor": {"image_processor_type": "ViTImageProcessorFast"},
    "defaults of deit": {"image_processor_type": "DeiTImageProcessor"},
    "deit, one number": {"feature_extractor_type": "DeiTFeatureExtractor", "size": 240},
    "defaults of beit": {"image_processor_type": "BeitImageProcessor"},
    "beit as released": {
        "feature_extractor_type": "BeitFeatureExtractor",
        "size": 256,
        "do_center_crop": True,
        "crop_size": 224,
    },
    "defaults of bit": {"image_processor_type": "BitImageProcessor"},
    "defaults of clip": {"image_processor_type": "CLIPImageProcessor"},
    "one number": {"image_processor_type": "ViTImageProcessor", "size": 20},
    "two numbers": {"image_processor_type": "ViTImageProcessor", "size": [20, 30]},
    "shorter side, one number": {
        "image_processor_type": "BitImageProcessor",
        "size": 30,
        "crop_size": 20,
    },
    "shorter side by a key": {
        "image_processor_type": "ViTImageProcessor",
        "size": 30,
        "default_to_square": False,
        "do_center_crop": True,
        "crop_size": [20, 24],
    },
    "squashed, then cropped": {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 30, "width": 40},
        "do_center_crop": True,
        "crop_size": {"height": 20, "width": 24},
    },
    "not cropped": {
        "image_processor_type": "BitImageProcessor",
        "size": {"height": 30, "width": 40},
        "do_center_crop": False,
    },
    "not rescaled": {"image_processor_type": "ViTImageProcessor", "do_rescale": False},
    "another factor": {"image_processor_type": "ViTImageProcessor", "rescale_factor": 0.01},
    "not normalised": {"image_processor_type": "ViTImageProcessor", "do_normalize": False},
    "neither": {
        "image_processor_type": "ViTImageProcessor",
        "do_normalize": False,
        "do_rescale": False,
    },
    "one mean": {
        "image_processor_type": "ViTImageProcessor",
        "image_mean": 0.4,
        "image_std": [0.2, 0.3, 0.4],
    },
    "null": {"image_processor_type": "ViTImageProcessor", "do_pad": None, "crop_size": None},
    **{
        f"resample {number}": {
            "image_processor_type": "ViTImageProcessor",
            "size": 10,
            "resample": number,
        }
        for number in range(6)
    },
}


@pytest.mark.parametrize("name", VALUES)
def test_every_key_has_the_meaning_of_transformers(name, tmp_path):
    values = VALUES[name]
    ours = read(reader_of(tmp_path, values), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "vit"}))
        processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    expected = processor(str(tmp_path / "x.png"), return_tensors="pt").pixel_values
    assert_close(ours, expected.float(), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image_processor_type": "ConvNextImageProcessor"}, "image_processor_type='ConvNext"),
        ({"do_resize": False}, "do_resize=False"),
        ({"do_pad": True}, "do_pad=True"),
        ({"use_square_size": True}, "use_square_size=True"),
        ({"data_format": "channels_last"}, "data_format='channels_last'"),
        ({"size": {"shortest_edge": 30}}, "do_center_crop=False"),
        ({"size": {"shortest_edge": 30, "longest_edge": 40}}, "size="),
        ({"size": {"max_height": 30, "max_width": 40}}, "size="),
        ({"size": "30"}, "size='30'"),
        ({"size": 0}, "height=0"),
        ({"do_center_crop": True}, "crop_size=None"),
        ({"do_center_crop": True, "crop_size": 300}, "crop_size=300 x 300 is larger than size="),
        ({"do_center_crop": "yes"}, "do_center_crop='yes'"),
        ({"do_convert_rgb": 1}, "do_convert_rgb=1"),
        ({"resample": 9}, "resample=9"),
        ({"resample": "bicubic"}, "resample='bicubic'"),
        ({"rescale_factor": 0}, "rescale_factor=0"),
        ({"image_mean": [0.5]}, "image_mean="),
        ({"image_std": 0}, "image_std="),
        ({"do_normalize": "no"}, "do_normalize='no'"),
    ],
)
def test_values_that_are_not_supported_are_refused_by_key_and_file(values, message, tmp_path):
    with pytest.raises(DataError, match=message.replace("[", r"\[")) as error:
        reader_of(tmp_path, values)
    assert "preprocessor_config.json" in str(error.value)


def test_keys_that_no_processor_reads_are_named(tmp_path):
    with pytest.warns(HeadwayWarning) as caught:
        reader_of(tmp_path, {"size_divisor": 32, "crop_pct": 0.9, "do_thumbnail": False})
    named = sorted(str(warning.message).split(": ")[1] for warning in caught)
    assert named == ["crop_pct=0.9 is ignored", "size_divisor=32 is ignored"]
    reader_of(tmp_path, {"processor_class": "ViTProcessor", "device": "cpu", "size": 20})


def test_an_own_policy_for_transparency_survives_the_files_of_transformers(tmp_path):
    from headway.interop.preprocessor_config import write_image_reader

    own = ImageReader(height=9, width=9, mean=(0.5,) * 3, deviation=(0.5,) * 3)
    write_image_reader(own, tmp_path)
    assert read_image_reader(tmp_path, ViTConfig(), "vit") == own
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    expected = processor(ALPHA, return_tensors="pt").pixel_values  # an image without a file
    assert_close(
        read(own, tmp_path, "a.png", FILES["transparent.png"]), expected, rtol=0, atol=0.01
    )


@pytest.mark.parametrize("shorter", [None, 24])
@pytest.mark.parametrize("conversion", ["blend", "pillow"])
@pytest.mark.parametrize("name", ["large.jpg", "transparent.png", "turned.jpg"])
def test_training_and_prediction_have_the_same_pixels(name, conversion, shorter, tmp_path):
    reader = ImageReader(
        height=20,
        width=20,
        mean=(0.5,) * 3,
        deviation=(0.25,) * 3,
        shorter=shorter,
        conversion=conversion,
    )
    (tmp_path / "images" / "ant").mkdir(parents=True)
    expected = read(reader, tmp_path / "images" / "ant", name, FILES[name])
    images = read_images([str(tmp_path / "images")]).train
    corpus = prepare_images(images, ["ant"], reader, tmp_path / "corpus")
    assert torch.equal(reader.normalised(torch.from_numpy(np.array(corpus.pixels))), expected)
