"""Configuration of a pre-training run of a text encoder, and the recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from headway.data.masking import MaskingConfig
from headway.models import BertConfig
from headway.settings import BATCH, COPIES, LENGTH, VOCABULARY, section, setting
from headway.tasks.sections import (
    BlocksLoopConfig,
    CheckpointConfig,
    ObservationConfig,
    RunSettings,
    TextDataConfig,
    averaging,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class EncoderDataConfig(TextDataConfig):
    """Of encoders. Where several texts (languages) are named, each has its own share and pairs."""

    smoothing: float = setting(
        0.7,
        "exponent of the shares of several texts, in rows and where word pieces are learned: "
        "1 by length, 0 all alike",
        ge=0,
        le=1,
    )
    tokenizer: str | None = setting(
        None, "the folder of a model, to take its tokenizer; none: word pieces are learned"
    )
    vocabulary: int = setting(8000, "word pieces that are learned", ge=100, le=VOCABULARY)
    lower: bool = setting(True, "of those: no capitals and no accents")
    new_pieces: int = setting(
        0,
        "words of this text that a model to start from learns as pieces of their own",
        ge=0,
        le=VOCABULARY,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderTrainingConfig(BlocksLoopConfig):
    steps: int = setting(6000, "updates", gt=0)
    average: float = averaging(0.0)
    rows: int = setting(32, "rows of a batch", gt=0, le=BATCH)
    length: int = setting(128, "most tokens of a row, its marks included", ge=8, le=LENGTH)
    short: float = setting(0.1, "share of the pairs that aim at a shorter length", ge=0, le=1)
    mixed: int = setting(
        0,
        "of several texts, so many passes first in which a second text that stands elsewhere may "
        "come from any of them; afterwards from its own",
        ge=0,
        le=COPIES,
    )
    start: str | None = setting(
        None, "go on from this: a run, or the folder of an encoder (short: --from)"
    )


@dataclass(frozen=True, kw_only=True)
class EncoderEvaluationConfig(ObservationConfig):
    metric: Literal["mlm_nats"] = setting("mlm_nats", "what the kept model is best by")
    rows: int = setting(400, "held-out rows looked at each time", gt=0, le=BATCH)
    sample: int = setting(5, "guesses shown at a hidden word each time; 0: none", ge=0, le=COPIES)
    sentences: int = setting(
        40, "of runs that go on from a model: held-out sentences for pseudo-perplexity", gt=0
    )


@dataclass(frozen=True, kw_only=True)
class EncoderScoring:
    """How an evaluation is made."""

    rows: int = setting(2000, "Maximum number of held-out rows of each text.", gt=0, le=BATCH)
    sentences: int = setting(
        300, "Maximum number of sentences for pseudo-perplexity, taken evenly; 0: none.", ge=0
    )
    sample: int = setting(
        0, "Number of predictions shown for one masked word; 0: none.", ge=0, le=COPIES
    )


@dataclass(frozen=True, kw_only=True)
class EncoderRunConfig(RunSettings):
    """One pre-training run of an encoder, from nothing or from another (`training.start`).

    `model.next_sentence` says what a row is: two texts of which one must tell whether they belong
    together (BERT), or as many sentences as fit (RoBERTa).
    """

    recipe: str = setting("bert", "name of the recipe this came from")
    data: EncoderDataConfig = section(EncoderDataConfig)
    masking: MaskingConfig = section(MaskingConfig, after="data")
    model: BertConfig = section(BertConfig)
    training: EncoderTrainingConfig = section(EncoderTrainingConfig)
    evaluation: EncoderEvaluationConfig = section(EncoderEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        """Settings that follow from the data, or from the model it starts from."""
        if self.training.start is None:
            return frozenset({"model.vocabulary", "model.max_length"})
        given = {f"model.{name}" for name in BertConfig.__dataclass_fields__}
        return frozenset(given - {"model.dropout"})


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
