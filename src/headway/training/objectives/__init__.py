"""Training objectives: from a model and a batch to a summed loss and the number of targets."""

from headway.training.objectives.contract import Loss, Objective
from headway.training.objectives.cross_entropy import cross_entropy_sum
from headway.training.objectives.distillation import (
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
    LayersConfig,
    View,
    filled_weights,
)
from headway.training.objectives.image_classification import ImageObjective
from headway.training.objectives.language_modeling import TextObjective
from headway.training.objectives.preference import (
    AnswerPairs,
    PreferenceConfig,
    PreferenceObjective,
    preference_losses,
)

__all__ = [
    "AnswerPairs",
    "DistillationBatch",
    "DistillationConfig",
    "DistillationObjective",
    "DistillationStudent",
    "ImageObjective",
    "LayersConfig",
    "Loss",
    "Objective",
    "PreferenceConfig",
    "PreferenceObjective",
    "TextObjective",
    "View",
    "cross_entropy_sum",
    "filled_weights",
    "preference_losses",
]
