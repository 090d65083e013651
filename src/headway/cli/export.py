"""`headway export`: a model as a folder that other libraries open."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from headway.cli.console import data_json, talk
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
    """Export a model for Hugging Face, and check what was written.

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
    from headway.tasks.opening import load, spec_of

    bundle = load(run)
    spec = spec_of(bundle.config.family)
    if spec is None or spec.export is None:
        raise UsageError(
            f"{run} holds a {bundle.kind}, and Hugging Face has no such models",
            hint="keep it as a Headway model",
        )
    exported = spec.export(bundle, run / to if out is None else out, family)
    sees = bundle.inputs.modality == "image"
    if json:
        data_json({**vars(exported), "folder": str(exported.folder)})
        return
    beside = "how it reads pictures" if sees else "its tokenizer"
    talk.print(f"written   {exported.folder}: {exported.architecture}, {beside}", markup=False)
    same = "pictures are read alike" if sees else f"{exported.texts} texts have the same ids"
    difference = f"logits differ by at most {exported.difference:.1e}"
    talk.print(f"checked   {difference}, {same}", markup=False)
    call = f"transformers.{exported.architecture}.from_pretrained({str(exported.folder)!r})"
    talk.print(f"next      {call}", markup=False)
