"""Conversion of classifiers from and to Hugging Face folders (`...ForSequenceClassification`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway import interop
from headway.interop import Exported
from headway.models import BertClassifier
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.reader import ClassReader, Numbers


def from_hugging_face(model: BertClassifier, folder: Path, model_type: str) -> ClassifierBundle:
    """Make a bundle of the model with the tokenizer and the labels of the folder.

    It accepts single texts and pairs. A model with one output is a regression model.
    """
    labels = interop.read_labels(folder, model_type)
    numbers = Numbers(0.0, 1.0) if len(labels) == 1 else None
    tokenizer, length = (
        interop.read_encoder_tokenizer(folder, model_type),
        model.config.bert.max_length,
    )
    names = () if numbers else labels
    return ClassifierBundle(model, ClassReader(tokenizer, names, length, numbers, pairs=None))


def to_hugging_face(bundle: ClassifierBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the classifier, its tokenizer and its labels.

    The scale of a regression model is folded into its head.
    """
    model: Any = bundle.model if bundle.reader.numbers is None else bundle.with_label_scale()
    labels = bundle.labels or None
    return interop.export(model, bundle.reader.tokenizer, folder, family, labels)
