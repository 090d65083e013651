"""Inspection of models: attention maps, measures computed from them, and how a prediction forms."""

from headway.inspection.ablation import head_importance as head_importance
from headway.inspection.ablation import without_heads as without_heads
from headway.inspection.alignment import Alignment as Alignment
from headway.inspection.alignment import align as align
from headway.inspection.alignment import check_aligns as check_aligns
from headway.inspection.alignment import links as links
from headway.inspection.entropy import attention_entropies as attention_entropies
from headway.inspection.entropy import relative_entropy as relative_entropy
from headway.inspection.notebook import show as show
from headway.inspection.projection import principal_components as principal_components
from headway.inspection.render import heat_map as heat_map
from headway.inspection.walk import walk as walk
from headway.inspection.watch import watch as watch
