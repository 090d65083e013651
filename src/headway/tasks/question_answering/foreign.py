"""Conversion of question-answering models from and to Hugging Face (`...ForQuestionAnswering`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.interop import Exported
from headway.models import BertQuestionAnswering
from headway.tasks.question_answering.bundle import AnswerReader, QuestionAnsweringBundle

WINDOW, STRIDE = 256, 96
"""Window length and stride, which Hugging Face folders do not specify."""


def from_hugging_face(
    model: BertQuestionAnswering, folder: Path, model_type: str
) -> QuestionAnsweringBundle:
    """Make a bundle of the model with the tokenizer of the folder."""
    window = min(WINDOW, model.config.bert.max_length)
    tokenizer = interop.read_encoder_tokenizer(folder, model_type)
    return QuestionAnsweringBundle(model, AnswerReader(tokenizer, window, min(STRIDE, window // 2)))


def to_hugging_face(bundle: QuestionAnsweringBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the question-answering model and its tokenizer."""
    return interop.export(bundle.model, bundle.reader.tokenizer, folder, family)
