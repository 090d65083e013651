"""Training objectives: from a model and a batch to a summed loss and the number of targets."""

from headway.training.objectives.captions import CaptionObjective
from headway.training.objectives.classification import (
    ClassificationObjective,
    RegressionObjective,
)
from headway.training.objectives.contract import Loss, Objective
from headway.training.objectives.contrastive import (
    ContrastiveObjective,
    CosineObjective,
    text_vectors,
)
from headway.training.objectives.cross_entropy import cross_entropy_sum
from headway.training.objectives.distillation import (
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
    LayersConfig,
    View,
)
from headway.training.objectives.guided_alignment import GuidedAlignmentObjective
from headway.training.objectives.image_classification import ImageObjective
from headway.training.objectives.language_modeling import TextObjective
from headway.training.objectives.masked_language_modeling import (
    MaskedLanguageModelingObjective,
    PretrainingLogits,
    judge,
)
from headway.training.objectives.r_drop import RDropObjective
from headway.training.objectives.self_distillation import (
    SelfDistillationConfig,
    SelfDistillationObjective,
)
from headway.training.objectives.translation import TranslationObjective
from headway.training.objectives.word_vectors import (
    NegativeSampling,
    NextWordObjective,
    negative_sampling_sum,
)

__all__ = [
    "CaptionObjective",
    "ClassificationObjective",
    "ContrastiveObjective",
    "CosineObjective",
    "DistillationBatch",
    "DistillationConfig",
    "DistillationObjective",
    "DistillationStudent",
    "GuidedAlignmentObjective",
    "ImageObjective",
    "LayersConfig",
    "Loss",
    "MaskedLanguageModelingObjective",
    "NegativeSampling",
    "NextWordObjective",
    "Objective",
    "PretrainingLogits",
    "RDropObjective",
    "RegressionObjective",
    "SelfDistillationConfig",
    "SelfDistillationObjective",
    "TextObjective",
    "TranslationObjective",
    "View",
    "cross_entropy_sum",
    "judge",
    "negative_sampling_sum",
    "text_vectors",
]
