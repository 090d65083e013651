"""Configuration of a masked-language-modelling run, and the recipes."""

from dataclasses import dataclass, replace
from typing import Literal

from headway.base.settings import BATCH, COPIES, VOCABULARY, count, section, setting, with_default
from headway.models import BertConfig
from headway.tasks.masked_language_modeling.masking import MaskingConfig
from headway.tasks.sections import (
    BlocksLoopConfig,
    ObservationConfig,
    RunSettings,
    TextDataConfig,
    TextStudentTrainingConfig,
    averaging,
    pre_trained,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class SmoothedTextConfig(TextDataConfig):
    """The training text of an encoder, also of a student with its teacher's tokenizer."""

    smoothing: float = setting(
        0.7,
        "exponent of the sampling weights of several texts (languages), in training and for a "
        "tokenizer that is trained: 1: in proportion to their lengths, 0: uniform",
        ge=0,
        le=1,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderDataConfig(SmoothedTextConfig):
    """The training text of an encoder, and its tokenizer.

    If several texts (languages) are named, sequences are sampled from each by its own weight, and
    sentence pairs are made within a text.
    """

    tokenizer: str | None = setting(
        None,
        "folder of a model whose tokenizer is used; if unset, a WordPiece tokenizer is trained",
    )
    vocabulary: int = count(8000, "vocabulary size of the trained tokenizer", VOCABULARY, least=100)
    lower: bool = setting(True, "the trained tokenizer lowercases text and strips accents")
    new_tokens: int = count(
        0,
        "number of frequent words of the text that are added to the vocabulary of a pre-trained "
        "model",
        VOCABULARY,
        least=0,
    )


@dataclass(frozen=True, kw_only=True)
class EncoderTrainingConfig(BlocksLoopConfig):
    """Settings of the training loop of an encoder."""

    average: float = averaging(0.0)
    batch_size: int = count(32, "batch size, in sequences", BATCH)
    length: int = with_default(TextStudentTrainingConfig, "length", 128)
    short: float = setting(
        0.1, "fraction of the sentence pairs that are built for a shorter random length", ge=0, le=1
    )
    mixed: int = count(
        0,
        "for several texts (languages): number of first epochs in which the random second text of "
        "next-sentence prediction may be of any text; afterwards it is of the same text",
        COPIES,
        least=0,
    )
    start: str | None = pre_trained("encoder whose pre-training is continued")


@dataclass(frozen=True, kw_only=True)
class EncoderEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["mlm_nats"] = setting("mlm_nats", "metric that selects the best model")
    sequences: int = count(400, "maximum number of held-out sequences at each evaluation", BATCH)
    sample: int = count(
        5,
        "number of predictions shown for one masked word at each evaluation; 0: none",
        COPIES,
        least=0,
    )
    sentences: int = setting(
        40,
        "number of held-out sentences for pseudo-perplexity, if pre-training of a model is "
        "continued",
        gt=0,
    )


@dataclass(frozen=True, kw_only=True)
class StudentEvaluationConfig(ObservationConfig):
    """Settings of the evaluation of a student during training."""

    metric: Literal["difference"] = setting(
        "difference",
        "metric that selects the best student: the weighted difference from the teacher",
    )
    sequences: int = with_default(EncoderEvaluationConfig, "sequences", 400)


@dataclass(frozen=True, kw_only=True)
class EncoderScoring:
    """Options of the evaluation of a text encoder."""

    sequences: int = count(2000, "maximum number of held-out sequences of each text", BATCH)
    sentences: int = setting(
        300,
        "maximum number of sentences for pseudo-perplexity, evenly spaced; 0: none",
        ge=0,
    )
    sample: int = count(
        0, "number of predictions that are shown for one masked word; 0: none", COPIES, least=0
    )


@dataclass(frozen=True, kw_only=True)
class EncoderRunConfig(RunSettings):
    """Configuration of a pre-training run of an encoder, from scratch or from `training.start`.

    `model.next_sentence` decides what a sequence is: a pair of texts for next-sentence prediction
    (BERT), or as many sentences as fit (RoBERTa).
    """

    recipe: str = setting("bert", "name of the recipe that these settings extend")
    data: EncoderDataConfig = section(EncoderDataConfig)
    masking: MaskingConfig = section(MaskingConfig, after="data")
    model: BertConfig = section(BertConfig)
    training: EncoderTrainingConfig = section(EncoderTrainingConfig)
    evaluation: EncoderEvaluationConfig = section(EncoderEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        if self.training.start is None:
            return frozenset({"model.vocabulary", "model.max_length"})
        shape = {f"model.{name}" for name in BertConfig.__dataclass_fields__}
        return frozenset(shape - {"model.dropout"})


def settings_of_student(config: RunSettings) -> dict[str, float]:
    """Return the settings of a run whose batches train a student: no word is masked."""
    evaluation = config.evaluation
    assert isinstance(evaluation, StudentEvaluationConfig)
    sequences = evaluation.sequences
    return {"masking.masked": 0.0, "masking.random": 0.0, "evaluation.sequences": sequences}


_OPTIMIZER = OptimizerConfig(kind="muon", lr=2e-3, muon_lr=1e-2, eps=1e-8, weight_decay=0.01)
_SCHEDULE = ScheduleConfig(kind="linear", final=0.0)


def _encoder_model(layers: int, width: int, heads: int) -> BertConfig:
    """Configure an encoder in BERT's proportions, with three differences that speed up training.

    Pre-norm needs no long warm-up. Rotary positions encode neighbourhood from the first step, which
    learned position embeddings must learn first. Without dropout a few epochs teach more
    (docs/log/results.md).
    """
    return BertConfig(
        num_layers=layers,
        model_dim=width,
        num_heads=heads,
        ffn_dim=4 * width,
        dropout=0.0,
        max_length=128,
        norm="pre",
        positions="rotary",
    )


def bert() -> EncoderRunConfig:
    """An encoder (BERT) pre-trained on your own text: 6 layers, width 256.

    Masked language modelling and next-sentence prediction. For a few megabytes of text and an hour
    or two on a laptop. Several texts (languages) are mixed by --data.smoothing. Rotary positions,
    pre-norm and Muon need a fraction of the steps of the paper's settings, which are those of
    Hugging Face: --model.positions learned --model.norm post --model.dropout 0.1 --optimizer.kind
    adamw --optimizer.lr 1e-4. [CLS] learns to compare two texts from large batches, and sooner if
    the random second texts of the first two epochs are of any text.
    """
    return EncoderRunConfig(
        recipe="bert",
        model=_encoder_model(6, 256, 4),
        optimizer=_OPTIMIZER,
        schedule=_SCHEDULE,
        training=EncoderTrainingConfig(batch_size=64, mixed=2, sizes=("tiny",)),
    )


def bert_domain() -> EncoderRunConfig:
    """Domain-adaptive pre-training of an encoder on the text of a domain: --from MODEL.

    --data.new-tokens 1000 adds words of that text to the vocabulary. Pseudo-perplexity and tokens
    per word are printed before and after. Gururangan et al. 2020.
    """
    return EncoderRunConfig(
        recipe="bert-domain",
        optimizer=OptimizerConfig(lr=1e-4, eps=1e-8, weight_decay=0.01),
        schedule=_SCHEDULE,
        training=EncoderTrainingConfig(steps=1000, batch_size=16),
    )


def bert_tiny() -> EncoderRunConfig:
    """A small encoder for a first try: 4 layers, width 128, vocabulary 2,000.

    headway train bert-tiny --data python-docs: a few minutes on 2 cores, nothing to download.
    """
    return EncoderRunConfig(
        recipe="bert-tiny",
        data=EncoderDataConfig(vocabulary=2000, held_out=0.1),
        model=_encoder_model(4, 128, 4),
        optimizer=_OPTIMIZER,
        schedule=_SCHEDULE,
        training=EncoderTrainingConfig(steps=2000, batch_size=16, length=64),
    )


def roberta() -> EncoderRunConfig:
    """An encoder (RoBERTa): masked language modelling only, with dynamic masking and full-length
    sequences.

    Without next-sentence prediction: a sequence has as many sentences as fit. Liu et al. 2019.
    Settings and cost are those of the recipe bert, but text keeps its capitals.
    """
    return EncoderRunConfig(
        recipe="roberta",
        data=EncoderDataConfig(lower=False),
        model=replace(_encoder_model(6, 256, 4), token_types=0, next_sentence=False, pooler="none"),
        optimizer=_OPTIMIZER,
        schedule=_SCHEDULE,
        training=EncoderTrainingConfig(batch_size=64, sizes=("tiny",)),
    )
