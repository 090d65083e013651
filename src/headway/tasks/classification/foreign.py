"""Conversion of classifiers from and to Hugging Face folders (`...ForSequenceClassification`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway import interop
from headway.base.errors import DataError
from headway.base.files import read_json
from headway.interop import Exported
from headway.models import BertClassifier
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.reader import ClassReader, Numbers

ACTIVATION, ACTIVATION_NAME = "sentence_transformers", "activation_fn"
FORMER_ACTIVATION = "sbert_ce_default_activation_function"
"""Keys by which config.json names the activation of the score of a pair (sentence-transformers)."""
SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"


def from_hugging_face(model: BertClassifier, folder: Path, model_type: str) -> ClassifierBundle:
    """Make a bundle of the model with the tokenizer and the labels of the folder.

    It accepts single texts and pairs. A model with one output predicts a number: the output itself
    if it was trained by regression or names the identity as its activation, else its sigmoid.
    """
    labels = interop.read_labels(folder, model_type)
    numbers = Numbers(0.0, 1.0, sigmoid=_has_sigmoid(folder)) if len(labels) == 1 else None
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
    numbers = bundle.reader.numbers
    model: Any = bundle.model if numbers is None else bundle.with_label_scale()
    labels = bundle.labels or None
    settings: dict[str, Any] = {}
    if numbers is not None and numbers.sigmoid:
        settings = {"problem_type": None, ACTIVATION: {ACTIVATION_NAME: SIGMOID}}
    tokenizer = bundle.reader.tokenizer
    return interop.export(model, tokenizer, folder, family, labels, keys=settings)


def _has_sigmoid(folder: Path) -> bool:
    """Return whether the score of a model with one output is the sigmoid of the output.

    Raises DataError for an activation that is neither the sigmoid nor the identity.
    """
    path = folder / "config.json"
    values: dict[str, Any] = read_json(path)
    if values.get("problem_type") == "regression":
        return False
    settings = values.get(ACTIVATION)
    named = settings.get(ACTIVATION_NAME) if isinstance(settings, dict) else None
    named = values.get(FORMER_ACTIVATION) if named is None else named
    if named not in (None, SIGMOID, IDENTITY):
        raise DataError(
            f"the activation of the score is {named!r}; known are {SIGMOID} and {IDENTITY}",
            str(path),
        )
    return named != IDENTITY
