"""Compilation: torch.compile of each block of a model, not of the model as a whole.

The blocks of a stack run the same code with other weights, so one compilation serves all of them:
a model of 48 blocks compiles in the time of one of two. Embeddings, the last norm and the loss run
as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TypeVar

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.transforms.stacks import stacked_blocks

M = TypeVar("M", bound=nn.Module)


class Compiled:
    """The forward pass of a block by torch.compile. A copy of the block compiles its own.

    dynamic: as in `compile`.
    """

    def __init__(self, forward: Callable[..., Tensor], dynamic: bool | None) -> None:
        self.forward, self.dynamic = forward, dynamic
        self._compiled: Callable[..., Tensor] | None = None

    def __call__(self, *inputs: object) -> Tensor:
        if self._compiled is None:  # torch.compile imports the compiler, which takes seconds
            self._compiled = torch.compile(self.forward, dynamic=self.dynamic)
        return self._compiled(*inputs)

    def __deepcopy__(self, memo: dict[int, object]) -> Compiled:
        return Compiled(deepcopy(self.forward, memo), self.dynamic)  # bound to the copied block


def compile(model: M, *, dynamic: bool | None = None) -> M:
    """Compile every block of the model's stacks, in place; return the model.

    The first batches take seconds to minutes, and a CPU needs a C++ compiler. dynamic: True for
    shapes that change from batch to batch; if None, torch compiles for the first shape, and for all
    shapes at the second. Applying it twice is the same as once. UsageError if the model has no
    blocks of attention: the cells of recurrent networks are compiled already, by torch.
    """
    blocks = stacked_blocks(model)
    if not blocks:
        raise UsageError(
            "nothing to compile: this model has no blocks of attention",
            hint="leave out --compile; recurrent networks run torch's own compiled cells",
        )
    for block in blocks:
        if not isinstance(block.forward, Compiled):
            block.forward = Compiled(block.forward, dynamic)
    return model
