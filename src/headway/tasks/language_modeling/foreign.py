"""Conversion of language models from and to Hugging Face folders (`...ForCausalLM`), and to
CTranslate2."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.bundle import TextBundle
from headway.interop import Exported, ExportedCTranslate2
from headway.models import GPT


def from_hugging_face(model: GPT, folder: Path, model_type: str) -> TextBundle:
    """Make a bundle of the model with the tokenizer and the settings of the folder."""
    settings = interop.read_folder_settings(folder, "language model")
    return TextBundle(model, interop.read_tokenizer(folder), settings)


def to_hugging_face(bundle: TextBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the language model and its tokenizer."""
    return interop.export(bundle.model, bundle.tokenizer, folder, family, settings=bundle.settings)


def to_ctranslate2(bundle: TextBundle, folder: Path, dtype: str) -> ExportedCTranslate2:
    """Write a CTranslate2 folder with the language model and its tokenizer."""
    return interop.export_language_model(bundle.model, bundle.tokenizer, folder, dtype)
