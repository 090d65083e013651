"""Looking inside a model."""

from headway.inspection.alignment import Alignment, align
from headway.inspection.render import heat_map

__all__ = ["Alignment", "align", "heat_map"]
