"""Exercises: one function each, checked by a ladder of tests, then plugged into a real model.

An exercise is a module with `EXERCISE`, an `Exercise`; `headway exercise` lists, starts and checks
them. Their order is that of the lectures.
"""

from headway.exercises import (
    additive_score,
    attention_rollout,
    beam_search,
    bleu,
    byte_pair_encoding,
    dino_centring,
    greedy_search,
    kv_cache,
    label_smoothing,
    layer_norm,
    low_rank_adaptation,
    masked_tokens,
    multi_head,
    patch_embedding,
    rotary_positions,
    scaled_dot_product,
    sinusoidal_positions,
    softmax_and_masks,
    teacher_forcing,
    transformer_block,
)
from headway.exercises.contract import Case, Exercise, Mistake, Plug
from headway.exercises.ladder import RungResult, climb, rung_names

EXERCISES: dict[str, Exercise] = {
    module.EXERCISE.name: module.EXERCISE
    for module in (
        softmax_and_masks,
        scaled_dot_product,
        multi_head,
        additive_score,
        kv_cache,
        layer_norm,
        sinusoidal_positions,
        rotary_positions,
        transformer_block,
        byte_pair_encoding,
        patch_embedding,
        label_smoothing,
        teacher_forcing,
        greedy_search,
        beam_search,
        bleu,
        masked_tokens,
        low_rank_adaptation,
        dino_centring,
        attention_rollout,
    )
}
"""Name -> exercise, in the order of a course."""

__all__ = [
    "EXERCISES",
    "Case",
    "Exercise",
    "Mistake",
    "Plug",
    "RungResult",
    "climb",
    "rung_names",
]
