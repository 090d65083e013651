"""Training: the loop, objectives, optimizers, schedules, checkpoints and observers."""

from headway.training.averaging import WeightAverage
from headway.training.budget import Budget
from headway.training.checkpoints import CHECKPOINTS, MODEL, Checkpointing, load_state, save_state
from headway.training.log import MetricsLog, StepLog
from headway.training.loop import NonFinite, Stream, fit
from headway.training.memory import peak_memory
from headway.training.objectives import (
    CaptionObjective,
    ClassificationObjective,
    ContrastiveObjective,
    CosineObjective,
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
    GuidedAlignmentObjective,
    ImageObjective,
    LayersConfig,
    Loss,
    MaskedLanguageModelingObjective,
    NegativeSampling,
    NextWordObjective,
    Objective,
    RDropObjective,
    RegressionObjective,
    SelfDistillationConfig,
    SelfDistillationObjective,
    TextObjective,
    TranslationObjective,
    View,
    cross_entropy_sum,
    judge,
    negative_sampling_sum,
    text_vectors,
)
from headway.training.observers import EVALUATING, Averaging, Evaluation, Interrupted
from headway.training.optimizers import OptimizerConfig, optimizer
from headway.training.prefetch import prefetched
from headway.training.recorded import RecordedGradients
from headway.training.schedules import ScheduleConfig, learning_rate
from headway.training.signals import StopRequest, graceful_stop
from headway.training.state import Event, Observer, StepReport, TrainingState

__all__ = [
    "CHECKPOINTS",
    "EVALUATING",
    "MODEL",
    "Averaging",
    "Budget",
    "CaptionObjective",
    "Checkpointing",
    "ClassificationObjective",
    "ContrastiveObjective",
    "CosineObjective",
    "DistillationBatch",
    "DistillationConfig",
    "DistillationObjective",
    "DistillationStudent",
    "Evaluation",
    "Event",
    "GuidedAlignmentObjective",
    "ImageObjective",
    "Interrupted",
    "LayersConfig",
    "Loss",
    "MaskedLanguageModelingObjective",
    "MetricsLog",
    "NegativeSampling",
    "NextWordObjective",
    "NonFinite",
    "Objective",
    "Observer",
    "OptimizerConfig",
    "RDropObjective",
    "RecordedGradients",
    "RegressionObjective",
    "ScheduleConfig",
    "SelfDistillationConfig",
    "SelfDistillationObjective",
    "StepLog",
    "StepReport",
    "StopRequest",
    "Stream",
    "TextObjective",
    "TrainingState",
    "TranslationObjective",
    "View",
    "WeightAverage",
    "cross_entropy_sum",
    "fit",
    "graceful_stop",
    "judge",
    "learning_rate",
    "load_state",
    "negative_sampling_sum",
    "optimizer",
    "peak_memory",
    "prefetched",
    "save_state",
    "text_vectors",
]
