"""Kernels in Triton for NVIDIA GPUs, each beside the function that launches it.

Triton comes with torch for CUDA. Its modules here are imported where they are used, if `computes`:
they cannot be imported without Triton.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch

from headway.shapes import Tensor
from headway.transforms.tracing import tracing

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def computes(x: Tensor) -> bool:
    """Whether kernels compute with this tensor: on an NVIDIA GPU, and not while `tracing`."""
    return x.device.type == "cuda" and x.dtype in DTYPES and not tracing(x) and _is_installed()


@cache
def _is_installed() -> bool:
    return torch.version.cuda is not None and find_spec("triton") is not None


@cache
def starts_early(device: torch.device) -> bool:
    """Whether a kernel may start while the one before it ends, on this device: from Hopper on.

    It may read weights meanwhile (`gdc_wait` ends this time), which takes a tenth off a step of
    decoding.
    """
    return torch.cuda.get_device_capability(device) >= (9, 0)
