"""The number of outputs that a server decodes together if its user sets none."""

from __future__ import annotations

from typing import Any

import torch

from headway.bundle import Bundle, TextGenerating

FEWEST, MOST = 16, 256
PART = 0.25
"""Part of the free memory of a GPU for keys and values. They are in memory up to three times while
a batch grows."""


def default_slots(bundle: Bundle, models: int = 1) -> int:
    """Return 16 on a CPU, and on a GPU the number of outputs of full length whose keys and values
    have room, from 16 to 256.

    A step of a GPU takes nearly as long for one output as for many. models: number of models that
    share the free memory.
    """
    if not isinstance(bundle, TextGenerating) or bundle.device.type != "cuda":
        return FEWEST
    free, _ = torch.cuda.mem_get_info(bundle.device)
    return slots_in(bundle, int(PART * free / models))


def slots_in(bundle: Bundle, memory: int) -> int:
    """Return the number of outputs of full length of a language model that fit into this number of
    bytes, from 16 to 256."""
    model: Any = bundle.model
    with torch.inference_mode():
        state = model.start(torch.zeros(1, 1, dtype=torch.long, device=bundle.device))
    of_token: int = sum(x.nbytes for cache in state.caches for x in cache.tokens(0, 0, 1))
    length: int = model.max_length or model.config.max_length
    return max(FEWEST, min(MOST, memory // max(1, of_token * length)))
