"""Conversion of translators from and to the files of other libraries."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.models import Translator
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.origin import origin_of_foreign


def from_hugging_face(model: Translator, folder: Path, model_type: str) -> TranslatorBundle:
    """Make a bundle of the model with the tokenizers and the settings of the folder."""
    vocabulary = model.config.target_vocabulary
    settings = interop.read_folder_settings(folder, "translator")
    tokenizers = interop.read_translator_tokenizers(folder, vocabulary)
    origin = origin_of_foreign(folder, model_type)
    return TranslatorBundle(model, tokenizers, origin=origin, settings=settings)


def to_hugging_face(bundle: TranslatorBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the translator and its tokenizers."""
    return interop.write_translator(bundle.model, bundle.tokenizer, folder, family, bundle.settings)
