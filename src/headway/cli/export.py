"""`headway export`: a model as a folder that other libraries open."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from headway.cli.console import data_json, talk
from headway.cli.pictures import sees_pictures
from headway.errors import UsageError


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

    Language models, encoders of BERT's family with their heads, encoders and classifiers of
    pictures. The folder is read again: its logits must be the model's to 1e-4, its ids the
    tokenizer's. If they are not, it is removed and the command fails.

    Parameters
    ----------
    run
        A run folder or a model folder.
    to
        hf: a Hugging Face folder (config.json, model.safetensors, tokenizer.json).
    out
        The new folder; RUN/hf unless given.
    family
        gpt2, openai-gpt, llama, qwen3, bert, roberta, distilbert, albert, vit or dinov2; the first
        that can hold the model unless given.
    json
        What was found, as one JSON object.
    """
    from headway.interop import export as write
    from headway.interop import export_images

    place = run / to if out is None else out
    bundle = _opened(run)
    reader = getattr(bundle, "reader", bundle)  # with tasks the tokenizer stands beside the labels
    labels = getattr(reader, "labels", None) or getattr(reader, "tags", None)
    if getattr(reader, "numbers", None) is not None:
        raise UsageError(
            "its numbers are on the scale of its training, for which there is no form there",
            hint="headway classify gives them as they are",
        )
    sees = sees_pictures(bundle)
    if sees:
        labels = getattr(bundle, "labels", None)
        found = export_images(bundle.model, bundle.reader, place, family, labels)
    else:
        found = write(bundle.model, reader.tokenizer, place, family, labels)
    if json:
        data_json({**vars(found), "folder": str(found.folder)})
        return
    beside = "how it reads pictures" if sees else "its tokenizer"
    talk.print(f"written   {found.folder}: {found.architecture}, {beside}", markup=False)
    same = "pictures are read alike" if sees else f"{found.texts} texts have the same ids"
    talk.print(f"checked   logits differ by at most {found.difference:.1e}, {same}", markup=False)
    call = f"transformers.{found.architecture}.from_pretrained({str(found.folder)!r})"
    talk.print(f"next      {call}", markup=False)


def _opened(run: Path) -> Any:
    """A bundle whose model has a form there."""
    from headway.bundle import load
    from headway.interop import Model

    bundle: Any = load(run)
    if not isinstance(bundle.model, Model):
        raise UsageError(
            f"{run} holds a {bundle.kind}, and only language models and encoders have a form there",
            hint="headway runs ls says which recipe a run came from",
        )
    return bundle
