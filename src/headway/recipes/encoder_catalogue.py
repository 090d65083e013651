"""The named recipes of encoders, and of what is made from them; costs and scores as in
`catalogue`."""

from __future__ import annotations

from typing import Any

from headway.models import BertConfig
from headway.recipes.distil_config import (
    DistilAnswerRunConfig,
    DistilEncoderEvaluationConfig,
    DistilEncoderRunConfig,
    DistilLanguageRunConfig,
    DistilRunConfig,
    DistilTagRunConfig,
)
from headway.recipes.encoder_config import (
    EncoderDataConfig,
    EncoderEvaluationConfig,
    EncoderRunConfig,
    EncoderTrainingConfig,
)
from headway.tasks.classification.config import ClassifyEvaluationConfig
from headway.tasks.language_modeling.config import LanguageEvaluationConfig
from headway.tasks.question_answering.config import AnswerEvaluationConfig
from headway.tasks.sections import CheckpointConfig
from headway.tasks.tagging.config import TagEvaluationConfig
from headway.training import OptimizerConfig, ScheduleConfig

_ENCODER_OPTIMIZER = OptimizerConfig(
    kind="muon", lr=2e-3, muon_lr=1e-2, eps=1e-8, weight_decay=0.01
)


def _encoder_model(layers: int, width: int, heads: int, **others: Any) -> BertConfig:
    """A size as BERT has it, with norms that need no slow start, and positions that tell a word its
    neighbours from the first step: a learned table must first learn them (docs/results.md)."""
    shape = {"num_layers": layers, "model_dim": width, "num_heads": heads, "ffn_dim": 4 * width}
    today = {"max_length": 128, "norm": "pre", "positions": "rotary"}
    return BertConfig(**{**today, **shape, **others})


def bert() -> EncoderRunConfig:
    """An encoder pre-trained on your own text: hidden words, next sentences; 6 layers of 256.

    For some megabytes of text and an hour or two on a laptop. Several texts (languages) are mixed
    by --data.smoothing. Rotary positions, norms before the sublayers and Muon for the matrices take
    a fraction of the steps; the paper's, which Hugging Face's form has too, are --model.positions
    learned --model.norm post --optimizer.kind adamw --optimizer.lr 1e-4.
    """
    return EncoderRunConfig(
        recipe="bert",
        model=_encoder_model(6, 256, 4),
        optimizer=_ENCODER_OPTIMIZER,
        schedule=ScheduleConfig(kind="linear", warmup=200),
        evaluation=EncoderEvaluationConfig(every=500),
    )


def bert_domain() -> EncoderRunConfig:
    """An encoder goes on with its pre-training on the text of a domain: --from MODEL.

    --data.new-pieces 1000 gives it words of that text. Pseudo-perplexity and tokens a word are told
    before and after. Gururangan et al. 2020.
    """
    return EncoderRunConfig(
        recipe="bert-domain",
        optimizer=OptimizerConfig(lr=1e-4, eps=1e-8, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", warmup=50),
        training=EncoderTrainingConfig(steps=1000, rows=16),
        evaluation=EncoderEvaluationConfig(every=200),
        checkpoint=CheckpointConfig(every=200),
    )


def bert_tiny() -> EncoderRunConfig:
    """A small encoder to see it work: 4 layers, width 128, 2,000 word pieces.

    headway train bert-tiny --data python-docs: a few minutes on 2 cores, nothing to download.
    """
    return EncoderRunConfig(
        recipe="bert-tiny",
        data=EncoderDataConfig(vocabulary=2000, held_out=0.1),
        model=_encoder_model(4, 128, 4, dropout=0.0),
        optimizer=_ENCODER_OPTIMIZER,
        schedule=ScheduleConfig(kind="linear", warmup=100),
        training=EncoderTrainingConfig(steps=2000, rows=16, length=64),
        evaluation=EncoderEvaluationConfig(every=500),
    )


def roberta() -> EncoderRunConfig:
    """An encoder by hidden words alone: rows full of sentences, other words hidden each epoch.

    Liu et al. 2019. Else as the recipe bert, and what it costs; capitals are kept.
    """
    return EncoderRunConfig(
        recipe="roberta",
        data=EncoderDataConfig(lower=False),
        model=_encoder_model(6, 256, 4, token_types=0, next_sentence=False, pooler="none"),
        optimizer=_ENCODER_OPTIMIZER,
        schedule=ScheduleConfig(kind="linear", warmup=200),
        evaluation=EncoderEvaluationConfig(every=500),
    )


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
