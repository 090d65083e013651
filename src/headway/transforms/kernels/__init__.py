"""Kernels in Triton for NVIDIA GPUs, each beside the function that launches it.

Triton comes with torch for CUDA. Its modules here are imported where they are used, if `computes`:
they cannot be imported without Triton.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Literal

import torch
import torch.nn.functional as F

from headway.base.shapes import Tensor
from headway.transforms.tracing import tracing

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
OLDEST = (8, 0)
"""Compute capability from which a GPU multiplies bfloat16: Ampere's."""
Activation = Literal["relu", "gelu", "gelu-tanh", "silu"]
"""The activations that kernels compute."""


def activation_name(activation: Callable[..., object]) -> Activation | None:
    """Return the name of an activation that kernels and compiled loops compute, or None."""
    if isinstance(activation, partial):  # compared by content, since copies of a model copy it
        is_tanh = activation.func is F.gelu and activation.keywords == {"approximate": "tanh"}
        return "gelu-tanh" if is_tanh else None
    names: dict[object, Activation] = {
        F.relu: "relu",
        F.gelu: "gelu",
        F.silu: "silu",
    }
    return names.get(activation)


def computes(x: Tensor) -> bool:
    """Whether kernels compute with this tensor: on an NVIDIA GPU, and not while `tracing`."""
    is_candidate = x.device.type == "cuda" and x.dtype in DTYPES and not tracing(x)
    return is_candidate and obstacle(x.device) is None


@cache
def obstacle(device: torch.device) -> str | None:
    """Return why kernels do not run on this device, or None if a first one gave the right result.

    Triton compiles a kernel when it is first launched, for which it needs a C compiler and Python's
    header files. Where it fails, torch computes everything.
    """
    if device.type != "cuda" or torch.version.cuda is None:
        return "they are for NVIDIA GPUs"
    if torch.cuda.get_device_capability(device) < OLDEST:
        return f"they need a GPU of compute capability {OLDEST[0]}.{OLDEST[1]} or higher"
    if find_spec("triton") is None:
        return "Triton is not installed"
    try:
        from headway.transforms.kernels.norms import added

        with torch.no_grad():
            ones = torch.ones(3, device=device)
            is_right = added(ones, ones).tolist() == [2.0] * 3
    except Exception as error:  # of any kind: by the compiler, the driver or Triton
        reason = str(error).strip().split("\n")[0]
        return f"Triton cannot compile here: {type(error).__name__}: {reason}"
    return None if is_right else "the first kernel gave a wrong result"


@cache
def starts_early(device: torch.device) -> bool:
    """Whether a kernel may start while the one before it ends, on this device: from Hopper on.

    It may read weights meanwhile (`gdc_wait` ends this time), which takes a tenth off a step of
    decoding.
    """
    return torch.cuda.get_device_capability(device) >= (9, 0)
