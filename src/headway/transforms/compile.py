"""Compilation: torch.compile of the methods that training calls."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def compile(model: M, *methods: str, dynamic: bool | None = None) -> M:
    """Compile methods of the model with torch.compile, in place; return the model.

    methods: names of the methods, such as "encode" and "decode"; "forward" if none is named.
    dynamic: True for shapes that change from batch to batch; if None, torch decides. The first call
    takes minutes and needs a C++ compiler.
    """
    for name in methods or ("forward",):
        setattr(model, name, torch.compile(getattr(model, name), dynamic=dynamic))
    return model
