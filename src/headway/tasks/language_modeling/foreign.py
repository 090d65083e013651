"""Language models of Hugging Face folders (`...ForCausalLM`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.bundle import TextBundle
from headway.interop import Exported
from headway.models import GPT


def from_hugging_face(model: GPT, folder: Path, model_type: str) -> TextBundle:
    """The model with the tokenizer of the folder."""
    return TextBundle(model, interop.read_tokenizer(folder))


def to_hugging_face(bundle: TextBundle, folder: Path, family: str | None) -> Exported:
    """The folder of a language model, with its tokenizer."""
    return interop.export(bundle.model, bundle.tokenizer, folder, family)
