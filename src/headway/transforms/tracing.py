"""Whether torch records operations instead of running them here: compiled, exported or sharded.

Fast twins choose their way by size, device and library, and write their own gradients. A graph that
is recorded once must hold for every size, Inductor and `torch.export` accept only operations that
they know, and a sharded weight (a DTensor) has no memory that another library could read. In all
three cases the twins compute the equation of their plain class.
"""

import sys

import torch

from headway.base.shapes import Tensor


def tracing(*tensors: Tensor | None) -> bool:
    """Whether `torch.compile` or `torch.export` traces, or one of the tensors is a DTensor."""
    if torch.compiler.is_compiling():  # True under torch.export too
        return True
    return sharded(*tensors)


def sharded(*tensors: Tensor | None) -> bool:
    """Whether one of the tensors is a DTensor."""
    # there is no DTensor before its module is imported, which takes longer than a product
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and any(isinstance(t, module.DTensor) for t in tensors)
