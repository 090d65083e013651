"""Conversion of text encoders from and to Hugging Face folders."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.bundle import EncoderBundle
from headway.interop import Exported
from headway.models import Bert


def from_hugging_face(model: Bert, folder: Path, model_type: str) -> EncoderBundle:
    """Make a bundle of the model with the tokenizer of the folder.

    Pooling, maximum length and prompts are those of sentence-transformers if the folder specifies
    them.
    """
    settings = interop.read_sentence_folder(folder)
    tokenizer = interop.read_encoder_tokenizer(folder, model_type)
    return EncoderBundle(model, tokenizer, settings.pooling, settings.length, settings.texts)


def to_hugging_face(bundle: EncoderBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the encoder, its tokenizer and its pooling."""
    sentences = interop.SentenceFolder(folder, bundle.pooling, bundle.length, bundle.texts)
    return interop.export(bundle.model, bundle.tokenizer, folder, family, sentences=sentences)
