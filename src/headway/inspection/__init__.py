"""Looking inside a model."""

from headway.inspection.alignment import Alignment, align, check_aligns
from headway.inspection.entropy import attention_entropies, relative_entropy
from headway.inspection.projection import principal_components
from headway.inspection.render import heat_map

__all__ = [
    "Alignment",
    "align",
    "attention_entropies",
    "check_aligns",
    "heat_map",
    "principal_components",
    "relative_entropy",
]
