"""Training: the loop, objectives, optimizers, schedules, checkpoints and observers."""

from headway.base.metrics_file import Event
from headway.training.averaging import WeightAverage
from headway.training.budget import Budget
from headway.training.busy_machine import beside_others
from headway.training.checkpoints import CHECKPOINTS, MODEL, Checkpointing, load_state, save_state
from headway.training.log import MetricsLog, StepLog
from headway.training.loop import NonFinite, Stream, agree, fit, repeated
from headway.training.memory import peak_memory
from headway.training.objectives import (
    AnswerPairs,
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
    ImageObjective,
    LayersConfig,
    Loss,
    Objective,
    PreferenceConfig,
    PreferenceObjective,
    TextObjective,
    View,
    cross_entropy_sum,
    filled_weights,
    preference_losses,
)
from headway.training.observers import EVALUATING, Averaging, Evaluation, Glimpses, Interrupted
from headway.training.optimizers import (
    AutomaticOptimizerConfig,
    OptimizerConfig,
    for_start,
    optimizer,
)
from headway.training.prefetch import prefetched
from headway.training.recorded import RecordedGradients
from headway.training.schedules import ScheduleConfig, learning_rate
from headway.training.signals import StopRequest, graceful_stop
from headway.training.state import Observer, StepReport, TrainingState

__all__ = [
    "CHECKPOINTS",
    "EVALUATING",
    "MODEL",
    "AnswerPairs",
    "AutomaticOptimizerConfig",
    "Averaging",
    "Budget",
    "Checkpointing",
    "DistillationBatch",
    "DistillationConfig",
    "DistillationObjective",
    "DistillationStudent",
    "Evaluation",
    "Event",
    "Glimpses",
    "ImageObjective",
    "Interrupted",
    "LayersConfig",
    "Loss",
    "MetricsLog",
    "NonFinite",
    "Objective",
    "Observer",
    "OptimizerConfig",
    "PreferenceConfig",
    "PreferenceObjective",
    "RecordedGradients",
    "ScheduleConfig",
    "StepLog",
    "StepReport",
    "StopRequest",
    "Stream",
    "TextObjective",
    "TrainingState",
    "View",
    "WeightAverage",
    "agree",
    "beside_others",
    "cross_entropy_sum",
    "filled_weights",
    "fit",
    "for_start",
    "graceful_stop",
    "learning_rate",
    "load_state",
    "optimizer",
    "peak_memory",
    "preference_losses",
    "prefetched",
    "repeated",
    "save_state",
]
