"""Conversion of taggers from and to Hugging Face folders (`...ForTokenClassification`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.interop import Exported
from headway.models import BertTagger
from headway.tasks.tagging.bundle import TaggerBundle, TagReader


def from_hugging_face(model: BertTagger, folder: Path, model_type: str) -> TaggerBundle:
    """Make a bundle of the model with the tokenizer and the tags of the folder.

    The maximum sequence length is the number of positions of the model.
    """
    tokenizer, length = (
        interop.read_encoder_tokenizer(folder, model_type),
        model.config.bert.max_length,
    )
    tags = interop.read_labels(folder, model_type)
    return TaggerBundle(model, TagReader(tokenizer, tags, length))


def to_hugging_face(bundle: TaggerBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the tagger, its tokenizer and its tags."""
    return interop.export(bundle.model, bundle.reader.tokenizer, folder, family, bundle.tags)
