"""Pictures with a class each in .npz files: arrays of bytes, and numbers or names beside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from headway.data.formats.images import SPLITS, TRAIN, LabelledImage, LabelledImages, class_name
from headway.data.formats.npz import Array, ArrayFile
from headway.data.images import Pixels
from headway.errors import DataError

NAMES = "classes"
_FORMS = (("{}_images", "{}_labels"), ("x_{}", "y_{}"))


def read_arrays(source: Path) -> LabelledImages:
    """The pictures of an .npz file.

    images (N x height x width, or with 1 or 3 channels after these, uint8) and labels (N numbers or
    names); or train_images, train_labels, valid_images, ... (also x_train, y_train, ...). An array
    `classes` of names says what the numbers mean. DataError names the file and the array.
    """
    found = LabelledImages()
    with ArrayFile(source) as arrays:
        names = _names(arrays.array(NAMES), source) if NAMES in arrays.names else None
        for split, images, labels in _pairs(arrays.names, source):
            getattr(found, split).extend(_images(arrays, images, labels, names))
    return found


def read_pictures(source: Path, name: str = "images") -> list[LabelledImage]:
    """The pictures of one array of an .npz file, of which something else says what they show: all
    have the label "". DataError."""
    with ArrayFile(source) as arrays:
        pixels = _pictures(arrays, name)
    return [
        LabelledImage("", f"{source}:{name}[{i}]", partial(_pixels, pixels, i))
        for i in range(len(pixels))
    ]


def _pairs(keys: list[str], source: Path) -> list[tuple[str, str, str]]:
    """(split, array of pictures, array of labels) of all that there are."""
    plain = [(TRAIN, "images", "labels")]
    named = [
        (split, images.format(name), labels.format(name))
        for name, split in SPLITS.items()
        for images, labels in _FORMS
    ]
    there = [each for each in (*plain, *named) if each[1] in keys and each[2] in keys]
    if not there:
        raise DataError(
            f"no pictures in it: the arrays are {', '.join(keys[:8]) or 'none'}",
            str(source),
            "images and labels, or train_images and train_labels",
        )
    return there


def _images(
    arrays: ArrayFile, images: str, labels: str, names: list[str] | None
) -> list[LabelledImage]:
    source = arrays.source
    pixels, classes = _pictures(arrays, images), arrays.array(labels)
    where = f"{source}:{images}"
    if classes.shape not in ((len(pixels),), (len(pixels), 1)):
        raise DataError(
            f"{' x '.join(map(str, classes.shape))} labels for {len(pixels):,} pictures",
            f"{source}:{labels}",
        )
    texts = _labels(classes.ravel(), names, f"{source}:{labels}")
    return [
        LabelledImage(text, f"{where}[{i}]", partial(_pixels, pixels, i))
        for i, text in enumerate(texts)
    ]


def _pictures(arrays: ArrayFile, images: str) -> Array:
    """Pictures x height x width x channels. DataError for what is none."""
    pixels, where = arrays.array(images), f"{arrays.source}:{images}"
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] not in (1, 3):
        shape = " x ".join(map(str, pixels.shape))
        raise DataError(
            f"{shape} of {pixels.dtype}",
            where,
            "uint8, pictures x height x width (x 1 or 3 channels)",
        )
    if 0 in pixels.shape[1:3]:
        raise DataError("pictures without a pixel", where)
    return pixels


def _pixels(pixels: Array, index: int) -> Pixels:
    found: Pixels = pixels[index]
    return found


def _labels(classes: Array, names: list[str] | None, where: str) -> list[str]:
    if classes.dtype.kind == "U" and names is None:
        return [str(label) for label in classes]
    if classes.dtype.kind not in "iu":
        raise DataError(f"labels of {classes.dtype}: whole numbers or names", where)
    return [class_name(int(label), names, f"{where}[{i}]") for i, label in enumerate(classes)]


def _names(names: Array, source: Path) -> list[str]:
    if names.dtype.kind != "U" or names.ndim != 1 or len(set(names.tolist())) < len(names):
        raise DataError("must be different names, as text", f"{source}:{NAMES}")
    return [str(name) for name in names]
