"""The loop and what it takes: objectives, optimisers, schedules, checkpoints, observers."""

from headway.training.averaging import WeightAverage
from headway.training.checkpoints import Checkpointing, load_state, save_state
from headway.training.log import MetricsLog, StepLog, read_metrics
from headway.training.loop import NonFinite, Stream, fit
from headway.training.objectives import (
    AnsweringObjective,
    ClassificationObjective,
    ContrastiveObjective,
    CosineObjective,
    DistillationConfig,
    DistillationObjective,
    Distilled,
    ImageObjective,
    Loss,
    MaskedWords,
    NegativeSampling,
    NextWordObjective,
    Objective,
    RegressionObjective,
    TaggingObjective,
    TextObjective,
    TranslationObjective,
    cross_entropy_sum,
    judge,
    negative_sampling_sum,
    text_vectors,
)
from headway.training.observers import Averaging, Evaluation, Interrupted, TimeLimit
from headway.training.optimizers import OptimizerConfig, depths, freeze, optimizer
from headway.training.schedules import ScheduleConfig, learning_rate
from headway.training.signals import StopRequest, graceful_stop
from headway.training.state import Event, Observer, StepReport, TrainingState

__all__ = [
    "AnsweringObjective",
    "Averaging",
    "Checkpointing",
    "ClassificationObjective",
    "ContrastiveObjective",
    "CosineObjective",
    "DistillationConfig",
    "DistillationObjective",
    "Distilled",
    "Evaluation",
    "Event",
    "ImageObjective",
    "Interrupted",
    "Loss",
    "MaskedWords",
    "MetricsLog",
    "NegativeSampling",
    "NextWordObjective",
    "NonFinite",
    "Objective",
    "Observer",
    "OptimizerConfig",
    "RegressionObjective",
    "ScheduleConfig",
    "StepLog",
    "StepReport",
    "StopRequest",
    "Stream",
    "TaggingObjective",
    "TextObjective",
    "TimeLimit",
    "TrainingState",
    "TranslationObjective",
    "WeightAverage",
    "cross_entropy_sum",
    "depths",
    "fit",
    "freeze",
    "graceful_stop",
    "judge",
    "learning_rate",
    "load_state",
    "negative_sampling_sum",
    "optimizer",
    "read_metrics",
    "save_state",
    "text_vectors",
]
