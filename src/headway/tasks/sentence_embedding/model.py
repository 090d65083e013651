"""Hugging Face folders of text embedders with the blocks of a language model."""

from pathlib import Path

from headway import interop
from headway.base.errors import DataError
from headway.bundle import EmbedderBundle
from headway.models import TextEmbedder
from headway.text import MissingTokenizer


def from_hugging_face(model: TextEmbedder, folder: Path, model_type: str) -> EmbedderBundle:
    """Make a bundle of the model with the tokenizer, the pooling and the prompts of the folder.

    Raises DataError without a tokenizer: it says which special tokens frame a text.
    """
    settings = interop.read_sentence_folder(folder)
    tokenizer = interop.read_tokenizer(folder)
    if isinstance(tokenizer, MissingTokenizer):
        raise DataError(tokenizer.missing.what, str(folder), tokenizer.missing.hint)
    return EmbedderBundle(
        model, tokenizer, settings.pooling, settings.length, settings.texts, settings.dense
    )


def to_hugging_face(bundle: EmbedderBundle, folder: Path, family: str | None) -> str:
    """Write a folder for sentence-transformers with the model, its tokenizer and its pooling."""
    sentences = interop.SentenceFolder(
        folder, bundle.pooling, bundle.length, bundle.texts, bundle.dense
    )
    return interop.write_text_model(
        bundle.model.gpt,
        bundle.tokenizer,
        folder,
        family,
        sentences=sentences,
        keys=interop.written_keys(bundle.model.config),
    )
