"""Inspection of models: attention maps, measures computed from them, and how a prediction forms."""

from headway.inspection.ablation import head_importance as head_importance
from headway.inspection.ablation import heads_of as heads_of
from headway.inspection.ablation import layers_of as layers_of
from headway.inspection.ablation import without_heads as without_heads
from headway.inspection.activation_patching import Patched as Patched
from headway.inspection.activation_patching import patch_stream as patch_stream
from headway.inspection.alignment import Alignment as Alignment
from headway.inspection.alignment import align as align
from headway.inspection.alignment import check_aligns as check_aligns
from headway.inspection.alignment import links as links
from headway.inspection.attention_flow import rolled as rolled
from headway.inspection.attention_flow import rollout as rollout
from headway.inspection.attention_flow import value_weighted as value_weighted
from headway.inspection.attention_flow import weighted as weighted
from headway.inspection.beams import beam_tree as beam_tree
from headway.inspection.entropy import attention_entropies as attention_entropies
from headway.inspection.entropy import relative_entropy as relative_entropy
from headway.inspection.gradient_x_input import gradient_x_input as gradient_x_input
from headway.inspection.head_patterns import head_pattern_scores as head_pattern_scores
from headway.inspection.logit_lens import lens_logits as lens_logits
from headway.inspection.logit_lens import logit_lens as logit_lens
from headway.inspection.notebook import show as show
from headway.inspection.projection import principal_components as principal_components
from headway.inspection.render import heat_map as heat_map
from headway.inspection.top_predictions import (
    most_probable_predictions as most_probable_predictions,
)
from headway.inspection.walk import walk as walk
from headway.inspection.watch import inspect_probe as inspect_probe
from headway.inspection.watch import watch as watch
