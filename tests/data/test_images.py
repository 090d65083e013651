"""Decoding of image files of all formats, also damaged and hostile ones."""

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.data import images
from headway.data.images import decoded, read_image, resized, size_and_channels, to_pixels
from headway.data.images import with_channels as in_channels
from tests.fixtures.images import pixels_of, png, saved

COLOUR, GREY = pixels_of(5, 7), pixels_of(5, 7, 1)


def test_a_png_is_decoded_exactly():
    assert np.array_equal(decoded(png(COLOUR), "x"), COLOUR)
    assert np.array_equal(decoded(png(GREY), "x"), GREY)
    assert size_and_channels(png(COLOUR), "x") == (5, 7, 3)
    assert size_and_channels(png(GREY), "x") == (5, 7, 1)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_lossy_formats_are_decoded_approximately(kind):
    smooth = np.asarray(Image.fromarray(COLOUR).resize((64, 48), Image.Resampling.BICUBIC))
    pixels = decoded(saved(Image.fromarray(smooth), kind, quality=95), "x")
    assert pixels.shape == (48, 64, 3)
    assert np.abs(pixels.astype(int) - smooth).mean() < 8


def test_sixteen_bits_are_reduced_to_eight():
    wide = np.array([[0, 257, 300], [65_535, 32_896, 128]], np.uint16)
    pixels = decoded(saved(Image.fromarray(wide)), "x")
    assert pixels[..., 0].tolist() == [[0, 1, 1], [255, 128, 0]]
    assert size_and_channels(saved(Image.fromarray(wide)), "x") == (2, 3, 1)


def test_transparent_pixels_are_blended_with_white():
    clear = np.zeros((1, 3, 4), np.uint8)
    clear[0, 0] = (10, 20, 30, 255)
    clear[0, 1] = (10, 20, 30, 0)
    clear[0, 2] = (0, 0, 0, 128)
    pixels = decoded(saved(Image.fromarray(clear, "RGBA")), "x")
    assert pixels[0, 0].tolist() == [10, 20, 30] and pixels[0, 1].tolist() == [255] * 3
    assert abs(int(pixels[0, 2, 0]) - 127) <= 1
    both = Image.fromarray(np.array([[[9, 255], [9, 0]]], np.uint8), "LA")
    assert decoded(saved(both), "x")[0].tolist() == [[9] * 3, [255] * 3]
    assert size_and_channels(saved(both), "x") == (1, 2, 3)


def test_palettes_are_decoded_to_colours_and_their_transparency_to_white():
    image = Image.new("P", (2, 1))
    image.putpalette([250, 0, 5, 0, 7, 0])
    image.putdata([0, 1])
    assert decoded(saved(image), "x")[0].tolist() == [[250, 0, 5], [0, 7, 0]]
    assert decoded(saved(image, transparency=1), "x")[0].tolist() == [[250, 0, 5], [255] * 3]


def test_black_and_white_and_cmyk_images_are_decoded():
    bits = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    assert decoded(saved(bits), "x")[..., 0].tolist() == [[0, 255]]
    ink = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    red = decoded(saved(ink, "JPEG"), "x").mean((0, 1))
    assert red[0] > 200 and red[1] < 60 and red[2] < 60


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_exif_orientation_is_applied(orientation, kind):
    image = Image.fromarray(COLOUR)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(image, kind, exif=exif)
    pixels = decoded(data, "x")
    expected = {
        1: COLOUR,
        2: COLOUR[:, ::-1],
        3: COLOUR[::-1, ::-1],
        4: COLOUR[::-1],
        5: COLOUR.transpose(1, 0, 2),
        6: np.rot90(COLOUR, -1),
        7: COLOUR[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(COLOUR),
    }
    assert np.array_equal(pixels, expected[orientation])
    assert size_and_channels(data, "x") == pixels.shape


def test_the_first_frame_of_an_animation_is_decoded():
    frames = [Image.fromarray(pixels_of(4, 4, seed=i)) for i in range(3)]
    for kind in ("PNG", "WEBP"):
        options = {"save_all": True, "append_images": frames[1:]}
        options |= {"lossless": True} if kind == "WEBP" else {}
        pixels = decoded(saved(frames[0], kind, **options), "x")
        assert np.array_equal(pixels, pixels_of(4, 4, seed=0)), kind


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF"])
def test_other_formats_without_loss_are_decoded_exactly(kind):
    assert np.array_equal(decoded(saved(Image.fromarray(COLOUR), kind), "x"), COLOUR)
    grey = decoded(saved(Image.fromarray(GREY[..., 0]), kind), "x")
    assert np.array_equal(in_channels(grey, 3), in_channels(GREY, 3))
    assert size_and_channels(saved(Image.fromarray(COLOUR), kind), "x") == (5, 7, 3)


def test_the_first_page_of_a_tiff_file_is_decoded():
    pages = [Image.fromarray(pixels_of(4, 4, seed=i)) for i in range(3)]
    data = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert np.array_equal(decoded(data, "x"), pixels_of(4, 4, seed=0))


def test_floating_point_pixels_are_refused():
    image = Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    with pytest.raises(DataError, match="floating-point numbers"):
        decoded(saved(image, "TIFF"), "x.tif")


def test_a_model_of_transformers_gets_pixels_without_transparency_and_clipped_at_255():
    clear = np.array([[[10, 20, 30, 0], [1, 2, 3, 128]]], np.uint8)
    pixels = decoded(saved(Image.fromarray(clear, "RGBA")), "x", "pillow")
    assert np.array_equal(pixels, clear[..., :3])
    images._warn_of_clipping.cache_clear()
    wide = saved(Image.fromarray(np.array([[0, 255, 300]], np.uint16)))
    with pytest.warns(HeadwayWarning, match="clipped at 255"):
        assert decoded(wide, "x", "pillow").ravel().tolist() == [0, 255, 255]
    decoded(wide, "x", "pillow")  # it warns once


@pytest.mark.parametrize("action", ["error", "ignore"])
def test_the_filters_of_the_caller_decide_on_the_warning_of_clipping(action):
    images._warn_of_clipping.cache_clear()
    wide = saved(Image.fromarray(np.array([[0, 255, 300]], np.uint16)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        if action == "error":
            with pytest.raises(HeadwayWarning, match="clipped at 255"):
                decoded(wide, "x", "pillow")
        else:
            decoded(wide, "x", "pillow")
    assert not caught


def bomb(x: int, y: int) -> bytes:
    """Return a PNG whose header has this size, with almost no pixel data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", x, y, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(2**16))
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(50_000, 50_000), (9000, 9000), (70_000, 10), (2**31 - 1, 1)])
def test_images_with_too_many_pixels_are_refused_by_their_header(size, monkeypatch):
    monkeypatch.setattr(images, "_pixels", lambda image: pytest.fail("it was decoded"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Pillow's own warning should not reach the user
        with pytest.raises(DataError, match=r"pixels|no picture") as error:
            decoded(bomb(*size), "bomb.png")
    assert error.value.where == "bomb.png"


def tiff(**changes: int) -> bytes:
    """Return a TIFF file of 10 x 10 grey pixels with other values of some of its tags."""
    tags = {"width": 10, "height": 10, "bits": 8, "compression": 1, "grey": 1, "samples": 1}
    tags |= {"tile_width": 16, "tile_height": 16, "tile_start": 0, "tile_bytes": 64, **changes}
    numbers = dict(width=256, height=257, bits=258, compression=259, grey=262, samples=277)
    numbers |= dict(tile_width=322, tile_height=323, tile_start=324, tile_bytes=325)
    entries = [struct.pack("<HHII", numbers[name], 4, 1, value) for name, value in tags.items()]
    head = b"II*\0" + struct.pack("<IH", 8, len(entries))
    return head + b"".join(entries) + bytes(4 + 64)


def gif(screen: int, frame: int) -> bytes:
    """Return a GIF file with almost no pixels, whose header declares these sides."""
    start = b"GIF89a" + struct.pack("<HHBBB", screen, screen, 0x80, 0, 0) + bytes(6)
    return start + b"," + struct.pack("<HHHHB", 0, 0, frame, frame, 0) + b"\2\2\x44\1\0;"


@pytest.mark.parametrize(
    "data",
    [
        gif(65_535, 1),
        gif(10, 65_535),
        tiff(width=70_000, height=70_000),
        tiff(tile_width=65_504, tile_height=65_504),
        tiff(tile_width=65_504, tile_height=65_504, compression=5),
    ],
    ids=["screen", "frame", "pixels", "tile", "packed tile"],
)
def test_headers_of_gif_and_tiff_files_that_declare_too_much_are_refused(data):
    with pytest.raises(DataError):
        decoded(data, "x")


def test_damaged_images_are_refused_with_file_and_reason():
    good = png(pixels_of(40, 40))
    for data in (b"", b"no image, this", good[:30], good[: len(good) // 2], good[:8] + good[40:]):
        with pytest.raises(DataError, match="cannot be read as an image") as error:
            decoded(data, "a.png")
        assert error.value.where == "a.png"
    with pytest.raises(DataError, match="is an icon") as error:
        decoded(saved(Image.fromarray(COLOUR), "ICO"), "a.png")  # whatever its file name
    assert error.value.hint == "convert it: magick input.ico input.png"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_any_flipped_bytes_are_decoded_or_refused_with_an_error(kind):
    random = np.random.default_rng(0)
    good = np.frombuffer(saved(Image.fromarray(pixels_of(16, 16)), kind), np.uint8)
    for _ in range(150):
        bad = good.copy()
        positions = random.integers(0, len(bad), size=4)
        bad[positions] = random.integers(0, 256, size=4)
        try:
            pixels = decoded(bad.tobytes(), "x")
        except DataError:
            continue
        assert pixels.dtype == np.uint8 and pixels.ndim == 3


def test_files_are_read_and_missing_files_refused(tmp_path):
    (tmp_path / "a.png").write_bytes(png(COLOUR))
    assert np.array_equal(read_image(tmp_path / "a.png"), COLOUR)
    with pytest.raises(DataError, match="cannot be read"):
        read_image(tmp_path / "b.png")


def test_paths_bytes_arrays_and_pillow_images_are_accepted(tmp_path):
    (tmp_path / "a.png").write_bytes(png(COLOUR))
    for image in (str(tmp_path / "a.png"), tmp_path / "a.png", png(COLOUR), COLOUR):
        assert np.array_equal(to_pixels(image, "it"), COLOUR)
    assert np.array_equal(to_pixels(Image.fromarray(COLOUR), "it"), COLOUR)
    assert to_pixels(GREY[..., 0], "it").shape == (5, 7, 1)
    for invalid in (COLOUR.astype(np.float32), pixels_of(2, 2, 4), 3, None):
        with pytest.raises(UsageError, match="image 2"):
            to_pixels(invalid, "image 2")


def test_grey_and_colour_are_converted_into_each_other():
    assert np.array_equal(in_channels(GREY, 3), np.repeat(GREY, 3, 2))
    assert np.array_equal(in_channels(in_channels(GREY, 3), 1), GREY)
    green = np.zeros((1, 1, 3), np.uint8)
    green[..., 1] = 100
    assert in_channels(green, 1).item() == 59


def test_downscaled_images_are_antialiased():
    lines = np.zeros((8, 8, 1), np.uint8)
    lines[:, ::2] = 255
    pixels = resized(lines, 4, 4, "bilinear")
    assert pixels.shape == (4, 4, 1) and abs(int(pixels.mean()) - 127) < 3 and pixels.std() < 20
    assert resized(COLOUR, 5, 7) is COLOUR


def test_without_pillow_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(UsageError, match="headway\\[vision\\]"):
        decoded(io.BytesIO().getvalue(), "x")
