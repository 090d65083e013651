"""Inspection of models: attention maps, measures computed from them, and how a prediction forms."""

from headway.inspection.ablation import head_importance, heads_of, layers_of, without_heads
from headway.inspection.activation_patching import Patched, patch_stream
from headway.inspection.alignment import Alignment, align, check_aligns, links
from headway.inspection.attention_flow import rolled, rollout, value_weighted, weighted
from headway.inspection.beams import beam_tree
from headway.inspection.entropy import attention_entropies, relative_entropy
from headway.inspection.gradient_x_input import gradient_x_input
from headway.inspection.head_patterns import head_pattern_scores
from headway.inspection.logit_lens import lens_logits, logit_lens
from headway.inspection.notebook import show
from headway.inspection.projection import principal_components
from headway.inspection.render import heat_map
from headway.inspection.top_predictions import most_probable_predictions
from headway.inspection.walk import walk
from headway.inspection.watch import inspect_probe, watch

__all__ = [
    "Alignment",
    "Patched",
    "align",
    "attention_entropies",
    "beam_tree",
    "check_aligns",
    "gradient_x_input",
    "head_importance",
    "head_pattern_scores",
    "heads_of",
    "heat_map",
    "inspect_probe",
    "layers_of",
    "lens_logits",
    "links",
    "logit_lens",
    "most_probable_predictions",
    "patch_stream",
    "principal_components",
    "relative_entropy",
    "rolled",
    "rollout",
    "show",
    "value_weighted",
    "walk",
    "watch",
    "weighted",
    "without_heads",
]
