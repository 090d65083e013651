"""Training, evaluation and terminal output of word regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.settings import override, section, setting
from headway.base.sharing import Share
from headway.base.transfers import positions_where
from headway.data.rows import read_rows
from headway.data.split import hold_out
from headway.data.word_targets import WordBatch, WordTargets, word_sequences
from headway.evaluation import pearson
from headway.evaluation.scores import Metric, Scores
from headway.tasks.finetuning import (
    batches_of,
    check_unchanged,
    load_encoder,
    require_start,
    with_head,
)
from headway.tasks.job import Emit, Job, Summary, planned_steps, update_size
from headway.tasks.sections import FineTuningRunConfig, ObservationConfig
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions, Predicts, Styled, Task, TextInput
from headway.training import Loss, OptimizerConfig
from word_regression.model import Rated, WordRegressor, WordRegressorBundle


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The training data."""

    train: tuple[str, ...] = setting((), ".jsonl files with the keys words and numbers")
    held_out: float = setting(
        0.1, "fraction of the sentences that is held out for validation", gt=0, lt=1
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: str = setting("mse", "metric that selects the best model", names=("mse", "pearson"))


@dataclass(frozen=True, kw_only=True)
class RunConfig(FineTuningRunConfig):
    """Configuration of a word-regression run."""

    data: DataConfig = section(DataConfig)
    evaluation: EvaluationConfig = section(EvaluationConfig)


def rate() -> RunConfig:
    """A word regressor fine-tuned from an encoder on sentences with numbers (--from MODEL)."""
    return RunConfig(
        recipe="rate",
        optimizer=OptimizerConfig(lr=5e-4),
        evaluation=EvaluationConfig(every=100),
    )


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and the number of each."""

    words: list[str]
    numbers: list[float]


def read_sentences(paths: Sequence[Path]) -> list[Sentence]:
    """Read sentences from .jsonl files. Raises DataError for a line without a number per word."""
    sentences = []
    for path in paths:
        for row in read_rows(path, {"words": "words", "numbers": "numbers"}):
            words, numbers = row.values.get("words"), row.values.get("numbers")
            if not (isinstance(words, list) and isinstance(numbers, list) and words):
                raise DataError("words and numbers must be lists", row.where)
            if len(words) != len(numbers) or not all(type(n) in (int, float) for n in numbers):
                raise DataError(f"expected {len(words)} numbers, one per word", row.where)
            sentences.append(Sentence([*map(str, words)], [*map(float, numbers)]))
    return sentences


def split(data: DataConfig) -> tuple[list[Sentence], list[Sentence]]:
    """Read the training sentences, and hold out a fraction of them for validation."""
    sentences = read_sentences([Path(name) for name in data.train])
    train, valid = hold_out(sentences, lambda sentence: " ".join(sentence.words), data.held_out)
    if not train or not valid:
        raise DataError("too few sentences to hold out some for validation", ", ".join(data.train))
    return train, valid


def squared_error(model: WordRegressor, batch: WordBatch) -> Loss:
    """Compute sum (y - y*)^2 over the words."""
    words = positions_where(batch.words, len(batch.targets))
    numbers = model(batch.texts.tokens, batch.texts.keys).flatten()[words].float()
    total = (numbers - batch.targets).square().sum()
    return Loss(total, total.detach(), len(numbers))


def check(config: RunConfig) -> None:
    """Raise UsageError if sentences or the encoder are missing."""
    if not config.data.train:
        raise UsageError("no sentences are named", hint="headway train rate FILE --from MODEL")
    require_start(config.training.start, "a word regressor")


RateJob = Job[WordBatch, list[Sentence], NoOptions]


def prepare(config: RunConfig, folder: Path, machine: Machine, emit: Emit) -> RateJob:
    """Load the encoder, encode the sentences, and return the job that trains it with a new head."""
    start = load_encoder(config.training.start)
    train, valid = split(config.data)
    contents = [[[s.words, s.numbers] for s in sentences] for sentences in (train, valid)]
    check_unchanged(folder / "texts.json", start.tokenizer.fingerprint, contents)
    rows = word_sequences(start.tokenizer, [s.words for s in train], start.config.max_length)
    targets = WordTargets.of(rows, [sentence.numbers for sentence in train])
    pad, training = start.tokenizer.special_tokens.pad, config.training
    batches = batches_of(targets, training, pad, machine)
    steps = planned_steps(training, batches.batches_per_epoch, least=300)
    config = override(config, steps, "the sentences")
    size = f"{update_size(training, batches.examples_per_epoch):,} sentences"
    return Job(
        config=config,
        build=with_head(start, config, WordRegressor),
        batches=batches,
        objective=squared_error,
        held_out=valid,
        evaluation=NO_OPTIONS,
        bundle=lambda model: WordRegressorBundle(model, start.tokenizer),
        summary=Summary(model="an encoder with a head", batches=size, unit="words"),
    )


def evaluate(
    bundle: WordRegressorBundle, examples: list[Sentence], options: NoOptions, share: Share
) -> Scores:
    """Compute the mean squared error, and the correlation with the true numbers."""
    predictions = bundle.numbers([sentence.words for sentence in examples], share)
    predicted = torch.tensor([number for numbers in predictions for number in numbers])
    true = torch.tensor([number for sentence in examples for number in sentence.numbers])
    mse = (predicted - true).square().mean().item()
    correlation = Metric("pearson", pearson(predicted, true))
    metrics = (Metric("mse", mse, higher_is_better=False), correlation)
    return Scores(metrics, {"words": len(predicted)})


def show(bundle: WordRegressorBundle, prediction: Rated, options: NoOptions) -> list[Styled]:
    """Format every word with its number."""
    pairs = zip(prediction.words, prediction.numbers, strict=True)
    return [[(" ".join(f"{word}/{number:.1f}" for word, number in pairs), "")]]


WORD_REGRESSION = Task(
    name="word_regression",
    config=RunConfig,
    recipes={"rate": rate},
    check=check,
    prepare=prepare,
    evaluation=NoOptions,
    score=evaluate,
    read=lambda bundle, paths, config, options: read_sentences(paths),
    held_out=lambda bundle, run, config, options: split(config.data)[1],
    bundles={"word-regressor": BundleSpec(WordRegressorBundle)},
    predicts=Predicts(input=TextInput, options=NoOptions, show=show),
    next_commands=('rate {run} "..."', "eval {run}"),
)
