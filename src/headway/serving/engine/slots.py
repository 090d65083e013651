"""The number of outputs that a server decodes together if its user sets none."""

from typing import Any

import torch

from headway.bundle import Bundle, TextGenerating
from headway.transforms.graphs import capacity_for
from headway.transforms.recorder import CudaRecorder, Recorder

FEWEST, MOST = 16, 256
PART = 0.25
"""Part of the free memory of a GPU for the keys and values of a graph of all slots. They are in
memory up to two and a half times while a batch grows, and `replay_steps` records a graph that has
up to half of the memory that is then free."""


def default_slots(bundle: Bundle, models: int = 1, recorder: type[Recorder] = CudaRecorder) -> int:
    """Return 16 on a CPU, and on a GPU the number of outputs of full length whose keys and values
    have room in a CUDA graph: a power of two from 16 to 256, as graphs have.

    A step of a GPU takes nearly as long for one output as for many. models: number of models that
    share the free memory.
    """
    if not isinstance(bundle, TextGenerating) or bundle.device.type != recorder.device_type:
        return FEWEST
    return slots_in(bundle, int(PART * recorder.free_bytes(bundle.device) / models))


def slots_in(bundle: Bundle, memory: int) -> int:
    """Return the number of outputs of full length of a language model that fit into this number of
    bytes: a power of two from 16 to 256."""
    model: Any = bundle.model
    with torch.inference_mode():
        state = model.start(torch.zeros(1, 1, dtype=torch.long, device=bundle.device))
    of_token: int = sum(x[0, :, 0].nbytes for layer in state.cache.layers for x in layer.stores)
    length: int = model.max_length or model.config.max_length
    slots = MOST
    while slots > FEWEST and slots * capacity_for(length) * of_token > memory:
        slots //= 2
    return slots
