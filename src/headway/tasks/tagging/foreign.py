"""Taggers of Hugging Face folders (`...ForTokenClassification`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.interop import Exported
from headway.models import BertTagger
from headway.tasks.tagging.bundle import TaggerBundle, TagReader


def from_hugging_face(model: BertTagger, folder: Path, model_type: str) -> TaggerBundle:
    """The model with tokenizer and tags of the folder; it reads as many ids as it has positions."""
    tokenizer, length = interop.read_marked(folder, model_type), model.config.bert.max_length
    tags = interop.read_labels(folder, model_type)
    return TaggerBundle(model, TagReader(tokenizer, tags, length))


def to_hugging_face(bundle: TaggerBundle, folder: Path, family: str | None) -> Exported:
    """The folder of a tagger, with its tokenizer and tags."""
    return interop.export(bundle.model, bundle.reader.tokenizer, folder, family, bundle.tags)
