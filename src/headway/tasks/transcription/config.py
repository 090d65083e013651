"""Configuration of a run that fine-tunes a transcriber, and the recipe."""

from dataclasses import dataclass
from typing import Literal

from headway.base.settings import BATCH, count, section, setting, with_default
from headway.tasks.sections import (
    BatchSizeConfig,
    ExamplesConfig,
    FineTuningConfig,
    FineTuningRunConfig,
    ObservationConfig,
    StartedModelConfig,
)
from headway.training import OptimizerConfig, ScheduleConfig


@dataclass(frozen=True, kw_only=True)
class SpeechDataConfig(ExamplesConfig):
    """The recordings and transcripts of a run."""

    train: tuple[str, ...] = setting(
        (),
        "training recordings with transcripts: .tsv or .csv with a header, .jsonl, .json or "
        ".parquet",
    )
    sound: str = setting(
        "sound",
        "name of the column that holds the paths of the WAV files, relative to the table's folder",
    )
    text: str = setting("text", "name of the column that holds the transcripts")
    language: str | None = setting(
        None,
        "code of the language of the recordings: en, fr, ...; needed by a model of several "
        "languages",
    )


@dataclass(frozen=True, kw_only=True)
class SpeechModelConfig(StartedModelConfig):
    """Settings of a model with the shape of a pre-trained transcriber."""

    dropout: float = with_default(StartedModelConfig, "dropout", 0.0)


@dataclass(frozen=True, kw_only=True)
class SpeechTrainingConfig(BatchSizeConfig):
    """Settings of the training loop of a transcriber."""

    batch_size: int = count(8, "batch size, in recordings", BATCH)
    start: str | None = setting(
        None, "pre-trained transcriber to fine-tune: a Whisper folder or a run (short: --from)"
    )
    steps: int | None = with_default(FineTuningConfig, "steps", None)


@dataclass(frozen=True, kw_only=True)
class SpeechEvaluationConfig(ObservationConfig):
    """Settings of the evaluation during training."""

    metric: Literal["wer", "nats"] = setting("wer", "metric that selects the best model")
    recordings: int = setting(
        100, "maximum number of held-out recordings, evenly spaced, that are transcribed", gt=0
    )
    sample: int = setting(2, "number of transcripts that are shown", ge=0)


@dataclass(frozen=True, kw_only=True)
class SpeechScoring:
    """Options of the evaluation of a transcriber."""

    recordings: int | None = setting(
        None, "maximum number of recordings, evenly spaced; if unset, all", gt=0
    )
    sample: int = setting(0, "number of transcripts that are shown", ge=0)


@dataclass(frozen=True, kw_only=True)
class SpeechRunConfig(FineTuningRunConfig):
    """Configuration of a run that fine-tunes the transcriber `training.start`."""

    recipe: str = setting("speech", "name of the recipe that these settings extend")
    data: SpeechDataConfig = section(SpeechDataConfig)
    model: SpeechModelConfig = section(SpeechModelConfig)
    training: SpeechTrainingConfig = section(SpeechTrainingConfig)
    evaluation: SpeechEvaluationConfig = section(SpeechEvaluationConfig)


def speech() -> SpeechRunConfig:
    """A transcriber of speech fine-tuned from Whisper, on a table of WAV files and transcripts.

    --from MODEL names the Whisper folder, and --data.language the language of the recordings. A
    recording fills at most one window of 30 seconds. All weights are trained but the positions of
    the sound. The learning rate is that of the fine-tuned small models of Radford et al. 2023.
    """
    return SpeechRunConfig(
        optimizer=OptimizerConfig(lr=1e-5, beta2=0.98, eps=1e-6, weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", final=0.0),
    )
