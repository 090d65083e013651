"""The loop and what it takes: objectives, optimisers, schedules, checkpoints, observers."""

from headway.training.averaging import WeightAverage
from headway.training.checkpoints import Checkpointing, load_state, save_state
from headway.training.log import MetricsLog, StepLog, read_metrics
from headway.training.loop import NonFinite, Stream, fit
from headway.training.objectives import (
    AnsweringObjective,
    ClassificationObjective,
    Loss,
    NegativeSampling,
    NextWordObjective,
    Objective,
    TaggingObjective,
    TextObjective,
    TranslationObjective,
    cross_entropy_sum,
    negative_sampling_sum,
)
from headway.training.observers import Averaging, Evaluation, Interrupted, TimeLimit
from headway.training.optimizers import OptimizerConfig, optimizer
from headway.training.schedules import ScheduleConfig, learning_rate
from headway.training.signals import StopRequest, graceful_stop
from headway.training.state import Event, Observer, StepReport, TrainingState

__all__ = [
    "AnsweringObjective",
    "Averaging",
    "Checkpointing",
    "ClassificationObjective",
    "Evaluation",
    "Event",
    "Interrupted",
    "Loss",
    "MetricsLog",
    "NegativeSampling",
    "NextWordObjective",
    "NonFinite",
    "Objective",
    "Observer",
    "OptimizerConfig",
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
    "fit",
    "graceful_stop",
    "learning_rate",
    "load_state",
    "negative_sampling_sum",
    "optimizer",
    "read_metrics",
    "save_state",
]
