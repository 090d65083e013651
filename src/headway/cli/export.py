"""`headway export`: a language model as a folder that other libraries open."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

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
    """Write a language model and its tokenizer for Hugging Face, and check what was written.

    headway export runs/NAME --to hf

    The folder is read again: its logits must be the model's to 1e-4, its ids the tokenizer's. If
    they are not, it is removed and the command fails.

    Parameters
    ----------
    run
        A run folder or a model folder.
    to
        hf: a Hugging Face folder (config.json, model.safetensors, tokenizer.json).
    out
        The new folder; RUN/hf unless given.
    family
        gpt2, openai-gpt, llama or qwen3; the first that can hold the model unless given.
    json
        What was found, as one JSON object.
    """
    from headway.interop import export as write

    place = run / to if out is None else out
    model, tokenizer = _opened(run)
    found = write(model, tokenizer, place, family)
    if json:
        data_json({**vars(found), "folder": str(found.folder)})
        return
    talk.print(f"written   {found.folder}: {found.architecture}, its tokenizer", markup=False)
    talk.print(
        f"checked   logits differ by at most {found.difference:.1e}, "
        f"{found.texts} texts have the same ids",
        markup=False,
    )
    call = f"transformers.AutoModelForCausalLM.from_pretrained({str(found.folder)!r})"
    talk.print(f"next      {call}", markup=False)


def _opened(run: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a bundle that holds a language model."""
    from headway.bundle import load
    from headway.models import GPT

    bundle: Any = load(run)
    if not isinstance(bundle.model, GPT):
        raise UsageError(
            f"{run} holds a {bundle.kind}, and only language models have a form there",
            hint="headway runs ls says which recipe a run came from",
        )
    return bundle.model, bundle.tokenizer
