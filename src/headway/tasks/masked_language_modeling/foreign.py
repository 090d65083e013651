"""Text encoders of Hugging Face folders."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.bundle import EncoderBundle
from headway.interop import Exported
from headway.models import Bert


def from_hugging_face(model: Bert, folder: Path, model_type: str) -> EncoderBundle:
    """The model with the tokenizer of the folder, and with how sentence-transformers makes its
    vectors, where the folder says so."""
    how = interop.read_sentence_folder(folder)
    tokenizer = interop.read_marked(folder, model_type)
    return EncoderBundle(model, tokenizer, how.pooling, how.length)


def to_hugging_face(bundle: EncoderBundle, folder: Path, family: str | None) -> Exported:
    """The folder of a text encoder, with its tokenizer and how it makes vectors."""
    sentences = interop.SentenceFolder(folder, bundle.pooling, bundle.length)
    return interop.export(bundle.model, bundle.tokenizer, folder, family, sentences=sentences)
