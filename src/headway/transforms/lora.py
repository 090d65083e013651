"""LoRA: y = x W^T + b + (alpha / r) x A^T B^T, where only A and B are trained.

Fine-tuning changes a large matrix W by a product of two small ones (rank r); W is frozen.
"""

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TypeVar, cast

import torch
import torch.nn.functional as F
from torch import nn

from headway.attention import MultiHeadAttention
from headway.base.shapes import Float, Tensor
from headway.blocks.dropout import Dropout
from headway.blocks.feedforward import FeedForward, GatedFeedForward
from headway.transforms.quantize import QuantizedLinear, dequantize
from headway.transforms.quantize.layers import BFloat16Linear, Int4Linear, Int8Linear

M = TypeVar("M", bound=nn.Module)


class LoRALinear(nn.Linear):
    """x W^T + b + (alpha / r) dropout(x) A^T B^T, with A: r I and B: O r.

    Replaces a linear layer and has its parameters, under the same names, and `lora_a` (A) and
    `lora_b` (B). A is initialised to N(0, 1/I) and B to 0, so that at first the output is that of
    the linear layer. Hu et al. 2021, section 4.1.
    """

    def __init__(
        self, linear: nn.Linear, rank: int, alpha: float = 16.0, dropout: float = 0.0
    ) -> None:
        if not 1 <= rank <= min(linear.in_features, linear.out_features):
            raise ValueError(
                f"{rank=} must be at least 1 and at most the smaller side of "
                f"{linear.out_features} x {linear.in_features}"
            )
        nn.Module.__init__(self)  # nn.Linear's own would make a matrix
        self.in_features, self.out_features = linear.in_features, linear.out_features
        if isinstance(linear, QuantizedLinear):
            linear.restore_codes()
        for name, parameter in linear._parameters.items():
            self.register_parameter(name, parameter)
        self.scale = alpha / rank
        like = linear.weight  # float32 also if it is stored in small numbers
        self.lora_a = nn.Parameter(like.new_empty(rank, self.in_features))
        self.lora_b = nn.Parameter(like.new_zeros(self.out_features, rank))
        nn.init.normal_(self.lora_a, std=self.in_features**-0.5)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        change = F.linear(F.linear(self.dropout(x), self.lora_a), self.lora_b)
        return super().forward(x) + change * self.scale

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Return a float32 linear layer whose weight is W + (alpha / r) B A."""
        plain = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        change = self.scale * (self.lora_b @ self.lora_a)
        plain.weight, plain.bias = self._with(change), self.bias
        return plain.train(self.training)

    def _with(self, change: Float[Tensor, "O I"]) -> nn.Parameter:
        """Return the layer's own matrix, changed in place."""
        return cast("nn.Parameter", self.weight.add_(change))


class LoRAQuantizedLinear(LoRALinear, QuantizedLinear):
    """Adapters over a base of small numbers (QLoRA: Dettmers et al. 2023, section 3)."""

    def _with(self, change: Float[Tensor, "O I"]) -> nn.Parameter:
        return nn.Parameter(self.weight + change)


class LoRAInt8Linear(LoRAQuantizedLinear, Int8Linear):
    """`LoRAQuantizedLinear` over int8 weights."""


class LoRAInt4Linear(LoRAQuantizedLinear, Int4Linear):
    """`LoRAQuantizedLinear` over int4 weights."""


class LoRABFloat16Linear(LoRAQuantizedLinear, BFloat16Linear):
    """`LoRAQuantizedLinear` over bfloat16 weights."""


ADAPTED: dict[type[nn.Linear], type[LoRALinear]] = {
    Int8Linear: LoRAInt8Linear,
    Int4Linear: LoRAInt4Linear,
    BFloat16Linear: LoRABFloat16Linear,
    nn.Linear: LoRALinear,
}
"""Class of a layer -> the class with adapters; a layer has the first that it is an instance of."""


def lora(
    model: M,
    rank: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    targets: Sequence[str] | None = None,
) -> M:
    """Add adapters to linear layers, in place; from then on only adapters are trained.

    The layers may be those of a quantised model (QLoRA).

    targets: patterns of names of linear layers, such as "*.query" and "*.value" (the paper's
    choice); if None, all of attention and feed-forward layers. ValueError if a pattern matches no
    layer, if the model has adapters already, or if a layer shares its matrix with another module:
    merging one would change the other.
    """
    chosen = _targets(model, targets)
    for name, linear in chosen.items():
        adapted = next(ADAPTED[base] for base in ADAPTED if isinstance(linear, base))
        model.set_submodule(name, adapted(linear, rank, alpha, dropout).train(linear.training))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(_is_adapter(name))
    return model


def merge_lora(model: M) -> M:
    """Merge the adapters into the weights, in place; the model computes what it did with them.

    All parameters are trained again, under the names they had before `lora`. A model without
    adapters is not changed; a base of small numbers becomes float32, because merged weights would
    be rounded again. To continue training the adapters, merge a deep copy.
    """
    adapted = {n: m for n, m in model.named_modules() if isinstance(m, LoRALinear)}
    for name, layer in adapted.items():
        model.set_submodule(name, layer.merged())
    if adapted:
        dequantize(model).requires_grad_(True)
    return model


def _is_adapter(name: str) -> bool:
    return name.endswith((".lora_a", ".lora_b"))


def _targets(model: nn.Module, patterns: Sequence[str] | None) -> dict[str, nn.Linear]:
    if any(isinstance(module, LoRALinear) for module in model.modules()):
        raise ValueError("the model has adapters already: apply merge_lora first")
    chosen = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and _is_wanted(model, name, patterns)
    }
    layers = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in layers):
            known = dict.fromkeys(f"*.{name.rpartition('.')[2]}" for name in layers)
            raise ValueError(
                f"targets={list(patterns or ())}: no linear layer has a name like {pattern!r}; the "
                f"layers are {', '.join(known)}"
            )
    if not chosen:
        raise ValueError(
            "no linear layer to adapt: there is no attention or feed-forward one in the model"
        )
    owners = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    for name, linear in chosen.items():
        if owners[id(linear.weight)] > 1 or getattr(linear, "shared", False):
            raise ValueError(f"{name} shares its matrix with another module; leave it out")
    return chosen


def _is_wanted(model: nn.Module, name: str, patterns: Sequence[str] | None) -> bool:
    if patterns is not None:
        return any(fnmatchcase(name, pattern) for pattern in patterns)
    parent = model.get_submodule(name.rpartition(".")[0])
    return isinstance(parent, MultiHeadAttention | FeedForward | GatedFeedForward)
