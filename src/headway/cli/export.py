"""`headway export`: a model as a folder that other libraries open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.cli.console import data_json, talk
from headway.cli.pictures import sees_pictures
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.interop import Exported


def export(
    run: Path,
    /,
    *,
    to: Literal["hf"],
    out: Path | None = None,
    family: str | None = None,
    json: bool = False,
) -> None:
    """Write a model and its tokenizer, or how it reads pictures, for Hugging Face, and check what
    was written.

    headway export runs/NAME --to hf

    Language models, encoders of BERT's family with their heads (bare ones for sentence-transformers
    too), encoders and classifiers of pictures, captioners. The folder is read again: its logits
    must be the model's to 1e-4, its ids the tokenizer's. If they are not, it is removed and the
    command fails.

    Parameters
    ----------
    run
        A run folder or a model folder.
    to
        hf: a Hugging Face folder (config.json, model.safetensors, tokenizer.json).
    out
        The new folder; RUN/hf unless given.
    family
        gpt2, openai-gpt, llama, qwen3, bert, roberta, distilbert, albert, vit, dinov2 or
        vision-encoder-decoder; the first that can hold the model unless given.
    json
        What was found, as one JSON object.
    """
    bundle = _opened(run)
    sees = sees_pictures(bundle)
    found = _written(bundle, run / to if out is None else out, family)
    if json:
        data_json({**vars(found), "folder": str(found.folder)})
        return
    beside = "how it reads pictures" if sees else "its tokenizer"
    talk.print(f"written   {found.folder}: {found.architecture}, {beside}", markup=False)
    same = "pictures are read alike" if sees else f"{found.texts} texts have the same ids"
    talk.print(f"checked   logits differ by at most {found.difference:.1e}, {same}", markup=False)
    call = f"transformers.{found.architecture}.from_pretrained({str(found.folder)!r})"
    talk.print(f"next      {call}", markup=False)


def _written(bundle: Any, place: Path, family: str | None) -> Exported:
    """By the function for its kind. UsageError for what has no form there."""
    from headway.bundle import EncoderBundle
    from headway.interop import SentenceFolder, export_captioner, export_images
    from headway.interop import export as write
    from headway.models import Captioner
    from headway.tasks.classification.bundle import ClassifierBundle

    reader = getattr(bundle, "reader", bundle)  # with tasks the tokenizer stands beside the labels
    if isinstance(bundle.model, Captioner):
        parts = (bundle.reader.images, bundle.reader.tokenizer)
        return export_captioner(bundle.model, *parts, place, bundle.languages, family)
    if sees_pictures(bundle):
        labels = getattr(bundle, "labels", None)
        return export_images(bundle.model, reader, place, family, labels)
    model = bundle.model
    if isinstance(bundle, ClassifierBundle) and bundle.reader.numbers is not None:
        model = bundle.on_their_scale()
    labels = getattr(reader, "labels", None) or getattr(reader, "tags", None)
    sentences = None
    if isinstance(bundle, EncoderBundle):
        sentences = SentenceFolder(place, bundle.pooling, bundle.length)
    return write(model, reader.tokenizer, place, family, labels, sentences)


def _opened(run: Path) -> Any:
    """A bundle whose model has a form there."""
    from headway.interop import Model
    from headway.tasks.opening import load

    bundle: Any = load(run)
    if not isinstance(bundle.model, Model):
        raise UsageError(
            f"{run} holds a {bundle.kind}, and only language models and encoders have a form there",
            hint="headway runs ls says which recipe a run came from",
        )
    return bundle
