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
)
from headway.training.objectives.image_classification import ImageObjective
from headway.training.objectives.language_modeling import TextObjective

__all__ = [
    "DistillationBatch",
    "DistillationConfig",
    "DistillationObjective",
    "DistillationStudent",
    "ImageObjective",
    "LayersConfig",
    "Loss",
    "Objective",
    "TextObjective",
    "View",
    "cross_entropy_sum",
]
