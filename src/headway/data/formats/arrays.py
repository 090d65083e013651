"""Reads labelled images from .npz files: arrays of uint8 pixels, and arrays of class numbers or
class names."""

from functools import partial
from pathlib import Path

import numpy as np

from headway.base.errors import DataError
from headway.data.formats.images import LabelledImage, LabelledImages, label_name
from headway.data.formats.npz import Array, ArrayFile
from headway.data.formats.split_files import SPLITS, TRAIN
from headway.data.images import Pixels

NAMES = "classes"
_FORMS = (("{}_images", "{}_labels"), ("x_{}", "y_{}"))


def read_arrays(source: Path) -> LabelledImages:
    """Return the images of an .npz file.

    The arrays are `images` (N x height x width, or N x height x width x 1 or 3 channels; uint8) and
    `labels` (N class numbers or names); or, with splits, train_images, train_labels, valid_images,
    ... (also x_train, y_train, ...). The optional array `classes` has the names of the class
    numbers. Raises DataError with the file and the array.
    """
    images_by_split = LabelledImages()
    with ArrayFile(source) as arrays:
        names = _names(arrays.array(NAMES), source) if NAMES in arrays.names else None
        for split, images_name, labels_name in _pairs(arrays.names, source):
            getattr(images_by_split, split).extend(_images(arrays, images_name, labels_name, names))
    return images_by_split


def read_unlabelled_images(source: Path, name: str = "images") -> list[LabelledImage]:
    """Return the images of one array of an .npz file without labels (each label is "").

    Raises DataError for a missing array, or one that does not contain images.
    """
    with ArrayFile(source) as arrays:
        pixels = _checked_pixels(arrays, name)
    return [
        LabelledImage("", f"{source}:{name}[{i}]", partial(_pixels, pixels, i))
        for i in range(len(pixels))
    ]


def _pairs(keys: list[str], source: Path) -> list[tuple[str, str, str]]:
    """Return (split, name of the images array, name of the labels array) for each split."""
    unsplit = [(TRAIN, "images", "labels")]
    named = [
        (split, images.format(name), labels.format(name))
        for name, split in SPLITS.items()
        for images, labels in _FORMS
    ]
    existing = [pair for pair in (*unsplit, *named) if pair[1] in keys and pair[2] in keys]
    if not existing:
        raise DataError(
            "the file must have the arrays images and labels, or train_images and train_labels, "
            f"but has {', '.join(keys[:8]) or 'none'}",
            str(source),
            "save the file with these array names",
        )
    return existing


def _images(
    arrays: ArrayFile, images_name: str, labels_name: str, names: list[str] | None
) -> list[LabelledImage]:
    source = arrays.source
    pixels, classes = _checked_pixels(arrays, images_name), arrays.array(labels_name)
    where = f"{source}:{images_name}"
    if classes.shape not in ((len(pixels),), (len(pixels), 1)):
        raise DataError(
            f"the shape of the labels must be {len(pixels)}, one for each image, but is "
            f"{' x '.join(map(str, classes.shape)) or 'that of a single value'}",
            f"{source}:{labels_name}",
            "save one label for each image",
        )
    texts = _labels(classes.ravel(), names, f"{source}:{labels_name}")
    return [
        LabelledImage(text, f"{where}[{i}]", partial(_pixels, pixels, i))
        for i, text in enumerate(texts)
    ]


def _checked_pixels(arrays: ArrayFile, name: str) -> Array:
    """Return an array of images as N x height x width x channels. Raises DataError for an array of
    another shape or dtype."""
    pixels, where = arrays.array(name), f"{arrays.source}:{name}"
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] not in (1, 3):
        shape = " x ".join(map(str, pixels.shape))
        raise DataError(
            "the array must be uint8 with shape N x height x width (x 1 or 3 channels), "
            f"but is {pixels.dtype} with shape {shape}",
            where,
            "convert the pixels to bytes from 0 to 255, with the channels last",
        )
    if 0 in pixels.shape[1:3]:
        raise DataError(
            "the images must have at least one pixel, but their height or width is 0",
            where,
            "save the file again",
        )
    return pixels


def _pixels(pixels: Array, index: int) -> Pixels:
    image: Pixels = pixels[index]
    return image


def _labels(classes: Array, names: list[str] | None, where: str) -> list[str]:
    if classes.dtype.kind == "U" and names is None:
        return [str(label) for label in classes]
    if classes.dtype.kind not in "iubf":
        raise DataError(
            f"the labels must be whole numbers or names, but have dtype {classes.dtype}",
            where,
            "save them as integers, or as names without an array `classes`",
        )
    return [label_name(label, names, f"{where}[{i}]") for i, label in enumerate(classes.tolist())]


def _names(names: Array, source: Path) -> list[str]:
    if names.dtype.kind != "U" or names.ndim != 1 or len(set(names.tolist())) < len(names):
        raise DataError(
            "the class names must be a one-dimensional array of distinct texts",
            f"{source}:{NAMES}",
            "save one name for each class",
        )
    return [str(name) for name in names]
