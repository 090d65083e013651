"""What to learn: a model and a batch in, a summed loss and the number of targets out."""

from headway.training.objectives.contract import Loss, Objective
from headway.training.objectives.cross_entropy import cross_entropy_sum
from headway.training.objectives.translation import TranslationObjective

__all__ = ["Loss", "Objective", "TranslationObjective", "cross_entropy_sum"]
