"""A model without weights: a runtime computes its outputs, and the rest of Headway runs it as any
other.

It is a model of the usual class whose methods call the runtime: those of `methods_by_graphs` or of
`methods_by_rereading`. So every bundle, search and evaluation works with an exported model. All its
parameters are NaN: whatever does not come from the runtime is NaN, too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from headway.attention import Documents
from headway.base.shapes import Float, Int, Tensor
from headway.models import GPT, shapes_only
from headway.models.contracts import set_parameters
from headway.models.registry import MODELS
from headway.training.objectives.cross_entropy import KnownLogits

Method = Callable[..., Any]
Session = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
"""A loaded file: name of an input -> tensor; it returns name of an output -> tensor."""


def computed_model(config: Any, methods: Callable[[Any], Mapping[str, Method]]) -> Any:
    """Return a model whose parameters are all NaN; they take no memory.

    methods: returns its methods by name, for the model.
    """
    family: str = config.family
    with shapes_only():
        model = MODELS.call(family, MODELS[family].make, nn.Module, config)
    nowhere = torch.tensor(float("nan"))
    set_parameters(model, {n: nowhere.expand(p.shape) for n, p in model.named_parameters()})
    for name, method in methods(model).items():
        setattr(model, name, method)
    return model.requires_grad_(False).eval()


def language_methods(
    model: GPT, read: Callable[[Int[Tensor, "B T"]], Float[Tensor, "B T V"]]
) -> dict[str, Method]:
    """Return the methods by which the objectives of language modelling score a text.

    read: returns the logits of whole sequences.
    """
    model.output = KnownLogits(model.config.vocabulary)  # type: ignore[assignment]

    def hidden(tokens: Int[Tensor, "B T"], documents: Documents | None = None) -> Tensor:
        if documents is None:
            return read(tokens)
        apart, flat = documents.apart, tokens.flatten()
        parts = [read(flat[group.tokens]).flatten(0, 1) for group in apart.groups]
        return torch.cat(parts).index_select(0, apart.order).view(*tokens.shape, -1)

    return {"hidden": hidden, "forward": hidden, "logits": lambda logits: logits}
