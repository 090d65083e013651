"""Training, evaluation and terminal output of word regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.settings import section, setting
from headway.base.transfers import positions_where
from headway.data.formats import read_rows
from headway.data.split import hold_out
from headway.data.stream import Indices
from headway.data.word_targets import WordBatch, WordTargets, word_sequences
from headway.evaluation import pearson
from headway.evaluation.scores import Metric, Scores
from headway.models import Bert
from headway.tasks.encoder_job import EncoderJob
from headway.tasks.finetuning import check_unchanged, load_encoder, require_encoder
from headway.tasks.job import Emit
from headway.tasks.sections import (
    BatchSizeConfig,
    ObservationConfig,
    RunSettings,
    StartedModelConfig,
)
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions, Styled, TaskDefaults, TextInput
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
class RunConfig(RunSettings):
    """Configuration of a word-regression run."""

    recipe: str = setting("rate", "name of the recipe that these settings extend")
    data: DataConfig = section(DataConfig)
    model: StartedModelConfig = section(StartedModelConfig)
    training: BatchSizeConfig = section(BatchSizeConfig)
    evaluation: EvaluationConfig = section(EvaluationConfig)


def rate() -> RunConfig:
    """A word regressor fine-tuned from an encoder on sentences with numbers (--from MODEL)."""
    return RunConfig(optimizer=OptimizerConfig(lr=5e-4), evaluation=EvaluationConfig(every=100))


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence, and the number of each."""

    words: list[str]
    numbers: list[float]


def read_sentences(paths: Sequence[Path]) -> list[Sentence]:
    """Read sentences from .jsonl files. Raises DataError for a line without a number per word."""
    sentences = []
    for path in paths:
        for line, row in read_rows(path, {"words": "words", "numbers": "numbers"}):
            words, numbers = row.get("words"), row.get("numbers")
            if not (isinstance(words, list) and isinstance(numbers, list) and words):
                raise DataError("words and numbers must be lists", f"{path}:{line}")
            if len(words) != len(numbers) or not all(type(n) in (int, float) for n in numbers):
                raise DataError(f"expected {len(words)} numbers, one per word", f"{path}:{line}")
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


class RateJob(EncoderJob):
    """A `Job` that fine-tunes an encoder with a regression head on every word."""

    objective = staticmethod(squared_error)
    evaluation = NO_OPTIONS

    def __init__(self, config: RunConfig, start: Any, machine: Machine, folder: Path) -> None:
        train, self.held_out = split(config.data)
        contents = [
            [[sentence.words, sentence.numbers] for sentence in sentences]
            for sentences in (train, self.held_out)
        ]
        check_unchanged(folder / "texts.json", start.tokenizer.fingerprint, contents)
        words = [sentence.words for sentence in train]
        rows = word_sequences(start.tokenizer, words, start.config.max_length)
        self.train = WordTargets.of(rows, [sentence.numbers for sentence in train])
        lengths = [len(row.ids) for row in self.train.rows]
        super().__init__(config, start, machine, lengths, least=300)

    def batch(self, chosen: Indices) -> WordBatch:
        return self.train.batch(chosen, self.pad)

    def with_head(self, bert: Bert) -> WordRegressor:
        return WordRegressor(bert)

    def bundle(self, model: Any) -> WordRegressorBundle:
        return WordRegressorBundle(model, self.start.tokenizer)


class WordRegression(TaskDefaults):
    """The `Task` of word regression."""

    name = "word_regression"
    config: type[Any] = RunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"rate": rate}
    bundles: Mapping[str, BundleSpec] = {"word-regressor": BundleSpec(bundle=WordRegressorBundle)}
    input: type[Any] = TextInput
    next_commands: Sequence[str] = ('rate {run} "..."', "eval {run}")

    def check(self, config: RunConfig) -> None:
        if not config.data.train:
            raise UsageError(
                "no training sentences are named", hint="headway train rate FILE --from MODEL"
            )
        require_encoder(config.training.start, "a word regressor")

    def prepare(self, config: RunConfig, folder: Path, machine: Machine, emit: Emit) -> RateJob:
        return RateJob(config, load_encoder(config.training.start), machine, folder)

    def read(self, bundle: Any, paths: Sequence[Path], config: Any, options: Any) -> list[Sentence]:
        return read_sentences(paths)

    def held_out(self, bundle: Any, run: Path, config: Any, options: Any) -> list[Sentence]:
        return split(config.data)[1]

    def evaluate(
        self,
        bundle: WordRegressorBundle,
        examples: Sequence[Sentence],
        options: NoOptions = NO_OPTIONS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        predictions = bundle.numbers([sentence.words for sentence in examples], progress)
        predicted = torch.tensor([number for numbers in predictions for number in numbers])
        true = torch.tensor([number for sentence in examples for number in sentence.numbers])
        mse = (predicted - true).square().mean().item()
        metrics = (
            Metric("mse", mse, higher_is_better=False),
            Metric("pearson", pearson(predicted, true)),
        )
        return Scores(metrics, {"words": len(predicted)})

    def show_prediction(self, bundle: Any, prediction: Rated, options: Any) -> list[Styled]:
        pairs = zip(prediction.words, prediction.numbers, strict=True)
        return [[(" ".join(f"{word}/{number:.1f}" for word, number in pairs), "")]]


TASK = WordRegression()
