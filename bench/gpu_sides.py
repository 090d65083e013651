"""What the sides of `bench/gpu.py` share: models on the device, and which of them are there."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from bench.gpu_scale import Run, Scale
from headway.models import GPTConfig


def available(sides: dict[str, Callable[[], Run]], scale: Scale) -> dict[str, Callable[[], Run]]:
    """Leave out what is not installed, and what is to be left out."""
    without = [*scale.without, *(["transformers"] if find_spec("transformers") is None else [])]
    return {
        name: build for name, build in sides.items() if not any(part in name for part in without)
    }


def built(model: Callable[[], Any], scale: Scale, dtype: torch.dtype = torch.float32) -> Any:
    """Build a model on the device: random weights of a large one take long on a CPU."""
    with torch.device(scale.device):
        return model().to(scale.device, dtype)


def gpt2(config: GPTConfig, scale: Scale, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = GPT2Config(
        vocab_size=config.vocabulary,
        n_positions=config.max_length,
        n_embd=config.model_dim,
        n_layer=config.num_layers,
        n_head=config.num_heads,
        n_inner=config.ffn_dim,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return built(lambda: GPT2LMHeadModel(shape), scale, dtype)
