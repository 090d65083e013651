"""Pictures on the command line: what they show, how often that is right, their vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.console import data, data_json, talk
from headway.cli.texts import Texts
from headway.errors import DataError, UsageError
from headway.files import check_new_file

if TYPE_CHECKING:
    from headway.bundle import Bundle, ImageClassifierBundle
    from headway.data.formats.images import LabelledImage, LabelledImages

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


def evaluate_pictures(
    bundle: ImageClassifierBundle,
    places: tuple[Path, Path | None],
    confusion_path: Path | None,
    json: bool,
) -> None:
    """Scores on a source of pictures with classes, or on those that the run held out.

    confusion_path: a picture of which classes were taken for which.
    """
    import torch

    from headway.evaluation import confusion
    from headway.inspection.plots import confusion_matrix
    from headway.recipes.vision import scores

    if confusion_path is not None:
        check_new_file(confusion_path)
    images = _pictures(*places)
    known = {label: i for i, label in enumerate(bundle.labels)}
    for image in images:
        if image.label not in known:
            raise DataError(f"the model does not know the class {image.label!r}", image.where)
    shares = list(_shares(bundle, images))
    true = [known[image.label] for image in images]
    found = torch.tensor(shares)
    numbers = scores(found.clamp(min=1e-30).log(), torch.tensor(true))
    guesses = found.argmax(-1).tolist()
    if confusion_path is not None:
        counts = confusion(guesses, true, len(known))
        title = f"{len(images):,} pictures, accuracy {numbers['accuracy']:.3f}"
        confusion_matrix(confusion_path, counts, bundle.labels, title=title)
        talk.print(f"drawn     {confusion_path}", markup=False)
    right = sum(a == b for a, b in zip(guesses, true, strict=True))
    shown = {name: value for name, value in numbers.items() if not name.startswith("negative_")}
    if json:
        data_json({**shown, "right": right, "pictures": len(images)})
        return
    words = (f"{name.replace('_', ' ')} {value:.3f}" for name, value in shown.items())
    data("   ".join([*words, f"{right:,} of {len(images):,} pictures"]))


def _shares(
    bundle: ImageClassifierBundle, images: Sequence[LabelledImage]
) -> Iterator[list[float]]:
    """P of each class, in the order of the labels."""
    for start in range(0, len(images), CHUNK):
        pixels = [image.pixels() for image in images[start : start + CHUNK]]
        for each in bundle.classify(pixels):
            yield [each.probabilities[label] for label in bundle.labels]


def _pictures(run: Path, path: Path | None) -> list[LabelledImage]:
    from headway.data.image_sources import read_images

    return source_of(run, None).valid if path is None else read_images([str(path)]).every


def source_of(run: Path, path: Path | None) -> LabelledImages:
    """The pictures at `path`, parted into known and held-out ones; without it, those of the run."""
    from headway.recipes import saved
    from headway.recipes.dino_config import DinoRunConfig
    from headway.recipes.vision_config import VisionDataConfig, VisionRunConfig
    from headway.recipes.vision_data import labelled_images

    if path is not None:
        return labelled_images(VisionDataConfig(train=(str(path),)))
    config: Any = saved(run) if (run / "run.yaml").is_file() else None
    if not isinstance(config, VisionRunConfig | DinoRunConfig):
        raise UsageError(
            f"{run} does not say what it was trained on", hint="name a folder of pictures"
        )
    return labelled_images(config.data)
