"""Watching attention from outside, at full speed and without changing a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.attention.dot import Dot
from headway.attention.kernel import Kernel, ScaledDot, spread
from headway.attention.linear import LinearDot
from headway.attention.masks import Mask
from headway.attention.multihead import MultiHeadAttention
from headway.errors import UsageError
from headway.shapes import Float, Tensor

AttentionMaps = dict[str, list[Tensor]]
"""Name of an attention layer -> its weights, one Float "B H T S" for each call, in order."""

Act = Callable[[str, Kernel, tuple[Any, ...], Tensor], Tensor | None]
"""What is done at a call: name of the layer, its kernel, what went in, what came out -> what comes
out instead, or None."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What went into a kernel at one call, and what stands behind it; keys and values as each of
    the H query heads sees them.

    scale: what a product q k is multiplied by to be a score; None where a score is no such product.
    output: W_O by heads; what head h brings is its context times output[h].
    """

    q: Float[Tensor, "B H T Kq"]
    k: Float[Tensor, "B H S K"]
    v: Float[Tensor, "B H S Kv"]
    mask: Mask
    bias: Float[Tensor, "#B #H T S"] | None
    scale: float | None
    output: Float[Tensor, "H Kv D"]

    @property
    def norms(self) -> Float[Tensor, "B H S"]:
        """|v[h, s] W_O^h|: how long a key's value is once it has passed the head's part of W_O.
        Kobayashi et al. 2020, section 2.2."""
        exact = torch.promote_types(self.v.dtype, torch.float32)
        norms: Tensor = (self.v.to(exact) @ self.output.to(exact)).norm(dim=-1)
        return norms


def attention_layers(model: nn.Module) -> dict[str, Kernel]:
    """Name of each attention layer -> its kernel, in order. Layers that share one block (ALBERT)
    each have a name."""
    return {
        name.removesuffix(".kernel"): module
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, Kernel)
    }


def around_kernels(model: nn.Module) -> dict[Kernel, MultiHeadAttention]:
    """Each kernel -> the heads that it is part of."""
    return {m.kernel: m for m in model.modules() if isinstance(m, MultiHeadAttention)}


@contextmanager
def at_attention(model: nn.Module, layers: Sequence[str], act: Act) -> Iterator[list[str]]:
    """Do something whenever one of the chosen attention layers runs inside the `with` block.

    layers: beginnings of names ("decoder.blocks.3"); none for all. UsageError for one that fits
    nothing. Gives the names of those chosen.
    """
    known = attention_layers(model)
    for wanted in layers:
        if not any(name.startswith(wanted) for name in known):
            raise UsageError(
                f"no attention layer {wanted!r}; there are {', '.join(known) or 'none'}"
            )
    chosen = [name for name in known if not layers or name.startswith(tuple(layers))]
    names: dict[Kernel, list[str]] = {}
    for name, kernel in known.items():
        names.setdefault(kernel, []).append(name)
    handles = [
        kernel.register_forward_hook(_hook(own, set(chosen), act)) for kernel, own in names.items()
    ]
    try:
        yield chosen
    finally:
        for handle in handles:
            handle.remove()


def _hook(names: list[str], chosen: set[str], act: Act) -> Any:
    """Layers that share a kernel run in turn, so the number of the call tells which one it is."""
    calls = 0

    def run(kernel: Kernel, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        nonlocal calls
        name = names[calls % len(names)]
        calls += 1
        return act(name, kernel, inputs, output) if name in chosen else None

    return run


@contextmanager
def record_attention(model: nn.Module, layers: Sequence[str] = ()) -> Iterator[AttentionMaps]:
    """Collect the attention weights of every forward pass made inside the `with` block.

    The kernels run as always, so outputs are bit-identical to an unwatched run; the weights are
    computed beside them by `kernel.weights`, in float32, and moved to the CPU one layer after the
    other. `layers` keeps only layers whose name starts with one of the given strings
    ("decoder.blocks.3"); UsageError for an unknown one.
    """
    maps: AttentionMaps = {}

    def keep(name: str, kernel: Kernel, inputs: tuple[Any, ...], output: Tensor) -> None:
        q, k, _, mask, *rest = inputs
        with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
            maps[name].append(kernel.weights(q, k, mask, *rest).cpu())

    with at_attention(model, layers, keep) as chosen:
        maps.update((name, []) for name in chosen)
        yield maps


@contextmanager
def record_inputs(model: nn.Module, layers: Sequence[str] = ()) -> Iterator[dict[str, list[Seen]]]:
    """Collect what goes into the kernels, as `record_attention` does what they weigh: layer ->
    one `Seen` for each call. Outputs are bit-identical to an unwatched run."""
    seen: dict[str, list[Seen]] = {}
    around = around_kernels(model)

    def keep(name: str, kernel: Kernel, inputs: tuple[Any, ...], output: Tensor) -> None:
        q, k, v, mask, *rest = inputs
        heads = q.shape[1]
        with torch.no_grad():
            weight = around[kernel].output.weight.detach()
            found = Seen(
                q=q.detach(),
                k=spread(k.detach(), heads),
                v=spread(v.detach(), heads),
                mask=mask,
                bias=rest[0].detach() if rest and rest[0] is not None else None,
                scale=product_scale(kernel, q),
                output=weight.T.reshape(heads, v.shape[-1], -1),
            )
        seen[name].append(found)

    with at_attention(model, layers, keep) as chosen:
        seen.update((name, []) for name in chosen)
        yield seen


def product_scale(kernel: Kernel, q: Tensor) -> float | None:
    """What a product q k is multiplied by to be a score; None where a score is no such product."""
    if isinstance(kernel, ScaledDot | LinearDot):
        return float(q.shape[-1] ** -0.5)
    return 1.0 if isinstance(kernel, Dot) else None
