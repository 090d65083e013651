"""Images on the command line: their files, and what they show."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json
from headway.cli.texts import Texts
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.bundle import Bundle
    from headway.tasks.image_classification.bundle import ImageClassifierBundle

CHUNK = 256  # pictures looked at before something is shown
TOP = 5


def picture_paths(things: Sequence[str]) -> list[Path]:
    """Files, and all pictures of folders. UsageError where there is none."""
    from headway.data.formats.images import image_files

    if not things:
        raise UsageError("which pictures?", hint="name files, or folders of them")
    return [path for thing in things for path in image_files(Path(thing))]


def sees_pictures(bundle: Bundle) -> bool:
    """Whether it looks at pictures."""
    from headway.bundle import ImageEncoding

    return isinstance(bundle, ImageEncoding)


def gather_pictures(things: Sequence[str], label: str | None) -> Texts:
    """Their names; and the folders that they lie in, if `label` asks for them."""
    if label not in (None, "folder"):
        raise UsageError(f"--label {label}: of pictures only folder", hint="--label folder")
    paths = picture_paths(things)
    return Texts(
        [str(path) for path in paths], None if label is None else [p.parent.name for p in paths]
    )


def classify_pictures(
    bundle: ImageClassifierBundle, things: Sequence[str], top: int | None, json: bool
) -> None:
    """A line for each: the file, then labels and probabilities, the likeliest first."""
    paths, number = picture_paths(things), 0
    for start in range(0, len(paths), CHUNK):
        chunk = paths[start : start + CHUNK]
        for path, each in zip(chunk, bundle.classify(chunk), strict=True):
            number += 1
            best = dict(islice(each.probabilities.items(), top or (None if json else TOP)))
            if json:
                row = {"line": number, "file": str(path), "label": each.label}
                data_json({**row, "probabilities": best})
            else:
                found = (f"{label}\t{share:.3f}" for label, share in best.items())
                data("\t".join([str(path), *found]))
