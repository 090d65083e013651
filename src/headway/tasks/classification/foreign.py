"""Classifiers of Hugging Face folders (`...ForSequenceClassification`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.models import BertClassifier
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.reader import ClassReader, Numbers


def from_hugging_face(model: BertClassifier, folder: Path, model_type: str) -> ClassifierBundle:
    """The model with tokenizer and labels of the folder; it may read one text or two. A model of
    one output gives numbers."""
    labels = interop.read_labels(folder, model_type)
    numbers = Numbers(0.0, 1.0) if len(labels) == 1 else None
    tokenizer, length = interop.read_marked(folder, model_type), model.config.bert.max_length
    names = () if numbers else labels
    return ClassifierBundle(model, ClassReader(tokenizer, names, length, numbers, pairs=None))
