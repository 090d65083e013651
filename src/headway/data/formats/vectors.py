"""Texts with their vectors in .npz files: written once, searched often."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.data.formats.npz import ArrayFile
from headway.errors import DataError, UsageError
from headway.files import write_file

TEXTS_LIMIT = 2 * 2**30  # bytes of the array of texts, where each takes the room of the longest
LETTER = 4  # bytes
TEXTS, VECTORS, LABELS = "texts", "vectors", "labels"


@dataclass(frozen=True)
class TextVectors:
    """texts: as many as `vectors` (float32) has rows. labels: what each text is, or None."""

    texts: Sequence[str]
    vectors: npt.NDArray[np.float32]
    labels: Sequence[str] | None = None


def check_texts(texts: Sequence[str]) -> None:
    """UsageError for texts that are too long and too many to be an array."""
    longest = max(map(len, texts), default=0)
    size = longest * LETTER * len(texts)
    if size > TEXTS_LIMIT:
        raise UsageError(
            f"in an array {len(texts):,} texts are all as long as the longest, of {longest:,} "
            f"letters: {size / 2**30:.1f} GiB",
            hint="--output NAME.jsonl, or shorter texts",
        )


def write_vectors(path: Path, found: TextVectors) -> None:
    """The arrays vectors, texts and (where there are any) labels, durably."""
    arrays: dict[str, Any] = {VECTORS: found.vectors, TEXTS: np.array(found.texts)}
    if found.labels is not None:
        arrays[LABELS] = np.array(found.labels)
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    write_file(path, packed.getvalue())


def read_vectors(path: Path) -> TextVectors:
    """What `write_vectors` wrote. DataError with file and array."""
    with ArrayFile(path) as arrays:
        for name in (TEXTS, VECTORS):
            if name not in arrays.names:
                there = ", ".join(arrays.names[:8]) or "none"
                raise DataError(
                    f"no array {name!r} in it: there are {there}",
                    str(path),
                    "a file of headway embed --output has texts and vectors",
                )
        texts, vectors = arrays.array(TEXTS), arrays.array(VECTORS)
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or not np.isfinite(vectors).all():
        shape = " x ".join(map(str, vectors.shape))
        raise DataError(
            f"{shape} of {vectors.dtype}",
            f"{path}:{VECTORS}",
            "finite numbers, a row for each text",
        )
    if texts.dtype.kind != "U" or texts.shape != (len(vectors),):
        shape = " x ".join(map(str, texts.shape))
        raise DataError(
            f"{shape} of {texts.dtype} for {len(vectors):,} vectors", f"{path}:{TEXTS}", "texts"
        )
    return TextVectors(texts.tolist(), vectors.astype(np.float32))
