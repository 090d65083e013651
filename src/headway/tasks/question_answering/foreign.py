"""Question-answering models of Hugging Face folders (`...ForQuestionAnswering`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.interop import Exported
from headway.models import BertAnswerer
from headway.tasks.question_answering.bundle import AnswererBundle, AnswerReader

WINDOW, STRIDE = 256, 96  # a folder does not say what the model was trained with


def from_hugging_face(model: BertAnswerer, folder: Path, model_type: str) -> AnswererBundle:
    """The model with the tokenizer of the folder."""
    window = min(WINDOW, model.config.bert.max_length)
    tokenizer = interop.read_marked(folder, model_type)
    return AnswererBundle(model, AnswerReader(tokenizer, window, min(STRIDE, window // 2)))


def to_hugging_face(bundle: AnswererBundle, folder: Path, family: str | None) -> Exported:
    """The folder of a question answerer, with its tokenizer."""
    return interop.export(bundle.model, bundle.reader.tokenizer, folder, family)
