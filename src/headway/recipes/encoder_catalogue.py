"""The named recipes of encoders, and of what is made from them; costs and scores as in
`catalogue`."""

from __future__ import annotations

from headway.recipes.distil_config import (
    DistilAnswerRunConfig,
    DistilEncoderEvaluationConfig,
    DistilEncoderRunConfig,
    DistilLanguageRunConfig,
    DistilRunConfig,
    DistilTagRunConfig,
)
from headway.tasks.classification.config import ClassifyEvaluationConfig
from headway.tasks.language_modeling.config import LanguageEvaluationConfig
from headway.tasks.question_answering.config import AnswerEvaluationConfig
from headway.tasks.tagging.config import TagEvaluationConfig
from headway.training import OptimizerConfig, ScheduleConfig

_STUDENT_OPTIMIZER = OptimizerConfig(lr=5e-4, beta2=0.99, eps=1e-8, weight_decay=0.01)
_STUDENT_SCHEDULE = ScheduleConfig(kind="cosine", warmup=100, final=0.0)


def distil() -> DistilRunConfig:
    """A small, fast student of a trained classifier (--from RUN), TinyBERT's way.

    2 layers that begin as the teacher's lowest and learn what it computes on the texts, labels
    unseen: first its insides, then what it says. --data.extra FILE and --data.augment 1 give it
    more texts to hear its teacher on; --model.num-layers 1 is fastest, --model.embedding-dim 64
    smallest. Costs and scores: docs/results.md.
    """
    return DistilRunConfig(
        optimizer=_STUDENT_OPTIMIZER,
        schedule=_STUDENT_SCHEDULE,
        evaluation=ClassifyEvaluationConfig(every=250),
    )


def distil_tag() -> DistilTagRunConfig:
    """A small, fast student of a trained tagger (--from RUN); else as distil."""
    return DistilTagRunConfig(
        optimizer=_STUDENT_OPTIMIZER,
        schedule=_STUDENT_SCHEDULE,
        evaluation=TagEvaluationConfig(every=250),
    )


def distil_answer() -> DistilAnswerRunConfig:
    """A small, fast student of a trained answerer of questions (--from RUN); else as distil."""
    return DistilAnswerRunConfig(
        optimizer=_STUDENT_OPTIMIZER,
        schedule=_STUDENT_SCHEDULE,
        evaluation=AnswerEvaluationConfig(every=500),
    )


def distil_gpt() -> DistilLanguageRunConfig:
    """A small, fast student of a language model (--from MODEL) on plain text; else as distil.

    It has the teacher's tokenizer, so it can be its draft: headway generate TEACHER --draft RUN.
    """
    return DistilLanguageRunConfig(
        optimizer=_STUDENT_OPTIMIZER,
        schedule=_STUDENT_SCHEDULE,
        evaluation=LanguageEvaluationConfig(every=250),
    )


def distil_encoder() -> DistilEncoderRunConfig:
    """A small encoder of a large one (--from ENCODER) on plain text: TinyBERT's first stage.

    It learns the embeddings, hidden vectors and attention, whatever they are for. headway train
    classify --from RUN goes on with it; or, the paper's second stage, headway train distil --from
    CLASSIFIER --training.student RUN.
    """
    return DistilEncoderRunConfig(
        optimizer=_STUDENT_OPTIMIZER,
        schedule=_STUDENT_SCHEDULE,
        evaluation=DistilEncoderEvaluationConfig(every=500),
    )
