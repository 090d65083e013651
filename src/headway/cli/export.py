"""`headway export`: a model as a folder that other libraries load."""

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
    """Export a model to Hugging Face format, and verify the result.

    headway export runs/NAME --to hf

    Supports language models, encoders of the BERT family with their heads (text encoders also for
    sentence-transformers), image encoders and classifiers, and captioners. The exported model is
    loaded again: its logits must agree to 1e-4, and its tokenizer must give the same ids. Otherwise
    the folder is removed and the command fails.

    Parameters
    ----------
    run
        A run folder or a model folder.
    to
        Target format; hf: a Hugging Face folder (config.json, model.safetensors, tokenizer.json).
    out
        New folder for the exported model. If unset, RUN/hf.
    family
        Architecture of the exported model: gpt2, openai-gpt, llama, qwen3, bert, roberta,
        distilbert, albert, vit, dinov2 or vision-encoder-decoder. If unset, the first one that can
        represent the model.
    json
        Print the result of the verification as one JSON object.
    """
    from headway.tasks.opening import load, spec_of

    bundle = load(run)
    spec = spec_of(bundle.config.family)
    if spec is None or spec.export is None:
        raise UsageError(
            f"{run} is a {bundle.kind}, which cannot be exported: Hugging Face has no such model",
            hint="keep it as a Headway model",
        )
    exported = spec.export(bundle, run / to if out is None else out, family)
    is_image_model = bundle.inputs.modality == "image"
    if json:
        data_json({**vars(exported), "folder": str(exported.folder)})
        return
    part = "image preprocessing" if is_image_model else "tokenizer"
    talk.print(f"written   {exported.folder}: {exported.architecture}, {part}", markup=False)
    same = (
        "the image preprocessing is the same"
        if is_image_model
        else f"{exported.texts} texts have the same token ids"
    )
    difference = f"logits differ by at most {exported.difference:.1e}"
    talk.print(f"checked   {difference}, {same}", markup=False)
    call = f"transformers.{exported.architecture}.from_pretrained({str(exported.folder)!r})"
    talk.print(f"next      {call}", markup=False)
