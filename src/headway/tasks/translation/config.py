"""Configuration of a translation run, and the recipes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.base.settings import (
    BATCH,
    BEAMS,
    LENGTH,
    MOST,
    VOCABULARY,
    count,
    fraction,
    section,
    setting,
    with_default,
)
from headway.data.bad_rows import bad_rows_setting
from headway.decoding import BeamSettings
from headway.models import TranslatorConfig
from headway.tasks.sections import BlocksLoopConfig, ObservationConfig, RunSettings, unset_settings
from headway.tasks.translation.options import TranslateOptions
from headway.tasks.translation.pair_files import InlineTags
from headway.training import AutomaticOptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class TranslationDataConfig:
    """The sentence pairs of a run, and their tokenizers."""

    train: tuple[str, ...] = setting(
        (),
        "training pairs: a file (.tsv, .csv, .jsonl, .parquet, .po, .mo, .tmx, .xliff), a folder "
        "with splits, or the common prefix of two aligned files; several corpora for one model of "
        "several directions",
    )
    bad_rows: str = bad_rows_setting()
    directions: tuple[str, ...] = setting(
        (),
        "source and target language of each corpus of train, such as en-de,en-fr (en:pt-BR if a "
        "language has a hyphen); if unset, the columns or languages of the file, or the part "
        "en-de of its name",
    )
    weights: tuple[float, ...] = setting(
        (),
        "sampling weights of the corpora of train: the fraction of pairs from each; if unset, "
        "in proportion to their sizes",
    )
    temperature: float = setting(
        1.0,
        "temperature T of the sampling of corpora: their fractions are raised to the power 1/T, "
        "so that small corpora occur more often; 5 is common for many languages",
        gt=0,
        le=MOST,
    )
    alignments: tuple[str, ...] = setting(
        (),
        "word alignments of the training pairs, for training.guided_alignment: a file for each "
        "corpus of train with one line per pair in Pharaoh's format (0-0 1-2: source word - target "
        "word, counted from 0)",
    )
    back_translated: tuple[int, ...] = setting(
        (),
        "numbers, counted from 1, of the corpora of train whose sources are machine translations "
        "of their targets: these sources begin with the tag <BT>, and no pair is held out",
    )
    valid: str | None = setting(
        None,
        "validation pairs; if unset, the files of the validation split in the folder of train, or "
        "else some held-out training pairs",
    )
    test: str | None = setting(
        None,
        "test pairs for headway eval; if unset, the files of the test split in the folder of train",
    )
    source: str | None = setting(
        None,
        "column, key, language or file extension of the source; several columns, such as "
        "question,context, are joined with their names as markers",
    )
    target: str | None = setting(None, "column, key, language or file extension of the target")
    inline_tags: InlineTags = setting(
        "keep", "tags inside the texts of TMX and XLIFF files: kept as text, or dropped"
    )
    tokenizer: Literal["bpe", "unigram"] = setting(
        "bpe",
        "how words are split into tokens: by merged pairs (bpe), or into the most probable tokens "
        "of a Unigram language model",
    )
    vocabulary: int = count(8000, "vocabulary size of a tokenizer", VOCABULARY, least=259)
    joint: bool = setting(True, "one vocabulary for both languages")
    bpe_dropout: float = fraction(
        0.0,
        "probability with which each merge is left out when a training sentence is split into "
        "tokens, differently in each epoch; 0.1 helps with little data",
    )
    unigram_alpha: float | None = setting(
        None,
        "exponent of the probabilities by which a segmentation of each training sentence is "
        "sampled, differently in each epoch, with the tokenizer unigram; 0.1 to 0.5 are usual; if "
        "unset, the most probable segmentation",
        gt=0,
        le=100,
    )
    noise_drop: float = fraction(
        0.0,
        "probability with which each token of a training source is left out, differently in each "
        "epoch",
    )
    noise_mask: float = fraction(
        0.0,
        "probability with which each token of a training source is replaced by a blank, "
        "differently in each epoch",
    )
    noise_shuffle: int = count(
        0,
        "maximum number of positions by which a token of a training source is moved, differently "
        "in each epoch",
        LENGTH,
        least=0,
    )
    corruption: float = setting(
        0.0,
        "span corruption: fraction of the tokens of plain text that sentinels replace in the "
        "source and that are the target; 0: the data are pairs",
        ge=0,
        le=0.5,
    )
    corruption_length: float = setting(
        3.0, "mean length of a span of span corruption, in tokens", ge=1, le=LENGTH
    )
    max_length: int = count(
        200, "maximum length of a sentence in tokens; longer pairs are left out", LENGTH
    )


@dataclass(frozen=True, kw_only=True)
class TranslationTrainingConfig(BlocksLoopConfig):
    """Settings of the training loop of a translator."""

    tokens: int | Literal["auto"] = count(
        2048,
        "batch size in tokens: number of pairs times the longest sentence, padding included; auto: "
        "the largest that fits into the free memory, of at most a hundredth of an epoch",
        BATCH,
    )
    smoothing: float = fraction(0.1, "label smoothing")
    r_drop: float = setting(
        0.0,
        "R-Drop: weight of the divergence between two passes with different dropout, which takes "
        "twice the time; 0: one pass",
        ge=0,
        le=1000,
    )
    start: str | None = setting(
        None,
        "encoder-decoder that is fine-tuned, with its tokenizer: a run of translation, "
        "text-to-text or span-corruption, or a folder such as T5's (short: --from); if "
        "unset, training from scratch",
    )
    guided_alignment: float = setting(
        0.0,
        "guided alignment: weight of the cross-entropy between a head of cross-attention and the "
        "word alignments in data.alignments; 0: no guidance",
        ge=0,
        le=1000,
    )

    @property
    def batch_tokens(self) -> int:
        """The batch size in tokens. Raises ValueError while it is "auto"."""
        if self.tokens == "auto":
            raise ValueError("training.tokens is auto; a run determines it when its data are ready")
        return self.tokens


@dataclass(frozen=True, kw_only=True)
class TranslationEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["bleu", "chrf", "nats", "exact", "f1", "rouge1", "rouge2", "rougeL", "cer"] = (
        setting(
            "bleu",
            "metric that selects the best model; with exact match, f1, ROUGE or cer (character "
            "error rate) all of these are computed in training and by headway eval",
        )
    )
    beam: int = with_default(BeamSettings, "beam", 1)
    length_penalty: float = with_default(BeamSettings, "length_penalty", 1.0)
    sentences: int = setting(
        1000, "maximum number of validation sentences translated at each evaluation", gt=0
    )
    samples: int = count(
        2, "number of translations that are shown at each evaluation", BEAMS, least=0
    )


@dataclass(frozen=True, kw_only=True)
class TranslationScoring(BeamSettings):
    """Options of the evaluation of a translator."""

    beam: int = with_default(BeamSettings, "beam", 5)
    mbr: int = with_default(TranslateOptions, "mbr", 0)
    seed: int = with_default(TranslateOptions, "seed", 0)
    ensemble: tuple[Path, ...] = with_default(TranslateOptions, "ensemble", ())
    split: Literal["test", "valid"] = setting(
        "test",
        "split of a run's pairs: the test pairs, or the validation pairs that are translated at "
        "each evaluation of the training (with a beam width of 1 the scores equal the logged ones)",
    )
    source: str | None = with_default(TranslationDataConfig, "source", None)
    target: str | None = with_default(TranslationDataConfig, "target", None)
    to: str | None = setting(
        None,
        "target language, for a pretrained model with several; if unset, the language that its "
        "files name",
    )
    from_language: str | None = with_default(TranslateOptions, "from_language", None)
    sentences: int | None = setting(
        None,
        "maximum number of sentences that are translated, the first ones; if unset, "
        "evaluation.sentences of a run's validation pairs, and all of other pairs",
        gt=0,
    )
    samples: int = count(0, "number of translations that are shown", BEAMS, least=0)
    references: str | None = setting(
        None,
        "further columns or file extensions with references of the same sources, separated by "
        "commas; BLEU, chrF and TER then use all references",
    )
    all_metrics: bool = setting(False, "chrF++ and TER too, which take longer")
    comet: Path | None = setting(
        None,
        "COMET too: the folder of a checkpoint on this disk, with hparams.yaml and "
        "checkpoints/model.ckpt, a pickle that can run code; needs unbabel-comet",
    )
    text_metrics: bool = setting(
        False,
        "exact match, F1 of the words, ROUGE-1, ROUGE-2, ROUGE-L and character error rate; they "
        "are shown instead of BLEU and chrF, which --json and all_metrics add; a run whose "
        "evaluation.metric is one of them always has them",
    )
    repair: bool = setting(
        True,
        "placeholder accuracy after the repair of wrong placeholders too, as in the translation of "
        "a file; it searches again for these sentences",
    )
    breakdown: bool = setting(
        False,
        "BLEU by sentence length, and F1 of the words of the references by how often each is in "
        "the training pairs",
    )
    float32: bool = setting(
        False,
        "compute in float32 even if machine.dtype is bfloat16, so that near ties between two "
        "tokens have the same result on every machine; validation during training does",
    )


@dataclass(frozen=True, kw_only=True)
class TranslationRunConfig(RunSettings):
    """Configuration of a translation run.

    `model.size` chooses a named size; other model settings then override it.
    """

    recipe: str = setting("translate", "name of the recipe that these settings extend")
    data: TranslationDataConfig = section(TranslationDataConfig)
    model: TranslatorConfig = section(TranslatorConfig)
    optimizer: AutomaticOptimizerConfig = section(AutomaticOptimizerConfig)
    training: TranslationTrainingConfig = section(TranslationTrainingConfig)
    evaluation: TranslationEvaluationConfig = section(TranslationEvaluationConfig)

    @property
    def decided_by_data(self) -> frozenset[str]:
        batch = {"training.tokens"} if self.training.tokens == "auto" else set()
        batch |= unset_settings(self, "optimizer.kind", "optimizer.lr")
        if self.training.start is not None:
            shape = {f"model.{name}" for name in TranslatorConfig.__dataclass_fields__}
            return frozenset(batch | shape - {"model.dropout"} | {"data.directions"})
        return frozenset(
            batch
            | {
                "data.directions",
                "model.alignment_layer",
                "model.source_vocabulary",
                "model.target_vocabulary",
                "model.share_embeddings",
            }
        )

    @property
    def name(self) -> str:
        """The default name of the run: its recipe and languages."""
        sides = [side.replace(",", "-") for side in (self.data.source, self.data.target) if side]
        return "-".join([self.recipe, *sides])


_SCHEDULE = ScheduleConfig(warmup=0.12, final=0.02)
_ADAMW = AutomaticOptimizerConfig(kind="adamw", lr=3e-3)


def translate() -> TranslationRunConfig:
    """A Transformer translator trained on your own sentence pairs: 4 + 4 layers, width 128.

    For ten thousand to a few hundred thousand pairs, on a laptop.
    """
    return TranslationRunConfig(recipe="translate", schedule=_SCHEDULE)


def translate_multi30k() -> TranslationRunConfig:
    """Multi30k English-German (29,000 image captions), from $HEADWAY_DATA/mt.

    Cost and score: docs/results.md. The data set is small, so dropout is strong and there are many
    epochs; it supports a vocabulary of 5,000 and 4 + 4 layers of width 128.
    """
    folder = os.environ.get("HEADWAY_DATA")
    return TranslationRunConfig(
        recipe="translate-multi30k",
        data=TranslationDataConfig(
            train=(str(Path(folder, "mt", "multi30k")),) if folder else (),
            source="en",
            target="de",
            vocabulary=5000,
        ),
        model=TranslatorConfig(dropout=0.2),
        schedule=_SCHEDULE,
        training=TranslationTrainingConfig(steps=12_000, average=0.999),
    )


def text_to_text() -> TranslationRunConfig:
    """Any text to any text: normal forms, transliteration, corrections, short summaries.

    An encoder-decoder of 2 + 2 layers, width 128, selected by exact match: for short texts that
    follow rules. Four minutes with one thread for 99 % of the dates in docs/tasks/text_to_text.md.
    """
    return TranslationRunConfig(
        recipe="text-to-text",
        data=TranslationDataConfig(vocabulary=1000),
        model=TranslatorConfig(encoder_layers=2, decoder_layers=2),
        optimizer=_ADAMW,
        schedule=_SCHEDULE,
        training=TranslationTrainingConfig(tokens=1024, smoothing=0.0),
        evaluation=TranslationEvaluationConfig(metric="exact"),
    )


def span_corruption() -> TranslationRunConfig:
    """Pre-training of an encoder-decoder on plain text, by T5's span corruption: 2 + 2 layers.

    headway train span-corruption text.txt, then headway train text-to-text DATA --from RUN. What
    a few minutes gained, namely nothing, is in docs/tasks/text_to_text.md.
    """
    return TranslationRunConfig(
        recipe="span-corruption",
        data=TranslationDataConfig(vocabulary=1000, corruption=0.15),
        model=TranslatorConfig(encoder_layers=2, decoder_layers=2),
        optimizer=_ADAMW,
        schedule=_SCHEDULE,
        training=TranslationTrainingConfig(smoothing=0.0),
        evaluation=TranslationEvaluationConfig(metric="nats"),
    )


def emoji_names() -> TranslationRunConfig:
    """Names of emoji, from English to another language: the model that `make demo` trains.

    Two to three minutes on 2 cores for BLEU 85 or more on held-out names.
    """
    return TranslationRunConfig(
        recipe="emoji-names",
        data=TranslationDataConfig(vocabulary=2000, max_length=100),
        model=TranslatorConfig(dropout=0.1, encoder_layers=3, decoder_layers=3),
        optimizer=_ADAMW,
        schedule=ScheduleConfig(warmup=0.22, final=0.02),
        training=TranslationTrainingConfig(steps=900, tokens=2048, average=0.995),
        evaluation=TranslationEvaluationConfig(every=300, sentences=400),
    )
