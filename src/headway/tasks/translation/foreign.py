"""Conversion of translators to the files of other libraries."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.interop import ExportedCTranslate2
from headway.tasks.translation.bundle import TranslatorBundle


def to_ctranslate2(bundle: TranslatorBundle, folder: Path, dtype: str) -> ExportedCTranslate2:
    """Write a CTranslate2 folder with the translator and its tokenizers."""
    return interop.export_translator(bundle.model, bundle.tokenizer, folder, dtype)
