"""Writes and reads texts with their vectors (embeddings) in .npz files."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError, UsageError
from headway.base.files import write_file
from headway.data.formats.npz import ArrayFile

TEXTS_LIMIT = 2 * 2**30  # bytes of the array of texts, in which each text is padded to the longest
LETTER = 4  # bytes per character
TEXTS, VECTORS, LABELS = "texts", "vectors", "labels"


@dataclass(frozen=True)
class TextVectors:
    """Texts with one vector each.

    vectors: float32, one row per text. labels: the label of each text, or None if unlabelled.
    """

    texts: Sequence[str]
    vectors: npt.NDArray[np.float32]
    labels: Sequence[str] | None = None


def check_texts(texts: Sequence[str]) -> None:
    """Raise UsageError if the texts as an array would exceed `TEXTS_LIMIT` bytes."""
    longest = max(map(len, texts), default=0)
    size = longest * LETTER * len(texts)
    if size > TEXTS_LIMIT:
        raise UsageError(
            f"an array pads all {len(texts):,} texts to the length of the longest, "
            f"{longest:,} characters: {size / 2**30:.1f} GiB, more than the "
            f"{TEXTS_LIMIT / 2**30:.1f} GiB allowed",
            hint="write .jsonl instead (--output NAME.jsonl), or shorten the longest texts",
        )


def write_vectors(path: Path, text_vectors: TextVectors) -> None:
    """Write the arrays `vectors`, `texts` and, if there are any, `labels` durably to `path`."""
    arrays: dict[str, Any] = {VECTORS: text_vectors.vectors, TEXTS: np.array(text_vectors.texts)}
    if text_vectors.labels is not None:
        arrays[LABELS] = np.array(text_vectors.labels)
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    write_file(path, packed.getvalue())


def read_vectors(path: Path) -> TextVectors:
    """Read a file that `write_vectors` wrote, without labels. Raises DataError with file and
    array."""
    with ArrayFile(path) as arrays:
        for name in (TEXTS, VECTORS):
            if name not in arrays.names:
                names = ", ".join(arrays.names[:8]) or "none"
                raise DataError(
                    f"the file must have an array {name!r}, but its arrays are {names}",
                    str(path),
                    "give a file that headway embed --output NAME.npz wrote",
                )
        texts, vectors = arrays.array(TEXTS), arrays.array(VECTORS)
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or not np.isfinite(vectors).all():
        shape = " x ".join(map(str, vectors.shape))
        raise DataError(
            "the array must have two dimensions and finite floating-point values, but it is "
            f"{vectors.dtype} with shape {shape or '()'}, or has values that are not finite",
            f"{path}:{VECTORS}",
            "write the file again with headway embed --output NAME.npz",
        )
    if texts.dtype.kind != "U" or texts.shape != (len(vectors),):
        shape = " x ".join(map(str, texts.shape))
        raise DataError(
            f"the array must have one text for each of the {len(vectors):,} vectors, but it is "
            f"{texts.dtype} with shape {shape or '()'}",
            f"{path}:{TEXTS}",
            "write the file again with headway embed --output NAME.npz",
        )
    return TextVectors(texts.tolist(), vectors.astype(np.float32))
