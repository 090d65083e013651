"""Taggers of Hugging Face folders (`...ForTokenClassification`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.models import BertTagger
from headway.tasks.tagging.bundle import TaggerBundle, TagReader


def from_hugging_face(model: BertTagger, folder: Path, model_type: str) -> TaggerBundle:
    """The model with tokenizer and tags of the folder; it reads as many ids as it has positions."""
    tokenizer, length = interop.read_marked(folder, model_type), model.config.bert.max_length
    tags = interop.read_labels(folder, model_type)
    return TaggerBundle(model, TagReader(tokenizer, tags, length))
