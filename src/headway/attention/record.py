"""Recording: the weights of every attention layer of a model, without changing its outputs.

Kernels run as always; a forward hook computes the weights beside them (`Kernel.weights`).

>>> import torch
>>> from headway.attention import Mask, MultiHeadAttention, record_attention
>>> attention = MultiHeadAttention(model_dim=4, num_heads=2)
>>> words = torch.randn(1, 3, 4)  # B T D: three words
>>> with record_attention(attention) as maps:
...     _ = attention(words, words, Mask(causal=True))
>>> maps["kernel"][0].shape  # B H T S: of each head, the weight of each key for each query
torch.Size([1, 2, 3, 3])
>>> maps["kernel"][0][0, 0].triu(1).sum()  # no weight on a later word
tensor(0.)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from headway.attention.dot import Dot
from headway.attention.kernel import Kernel, ScaledDot, spread
from headway.attention.linear import LinearDot
from headway.attention.masks import Mask
from headway.attention.multihead import MultiHeadAttention
from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor

AttentionMaps = dict[str, list[Tensor]]
"""Name of an attention layer -> its weights, Float "B H T S", one tensor for each call in order."""

KernelArguments = tuple[Tensor, Tensor, Tensor, Mask, Tensor | None]
"""Queries, keys, values, mask and bias, with which a kernel is called."""

Act = Callable[[str, Kernel, KernelArguments, Tensor], Tensor | None]
"""A function that runs at each call: name of the layer, its kernel, inputs, output -> the output to
use instead, or None."""


@dataclass(frozen=True, kw_only=True)
class KernelInputs:
    """Inputs of a kernel at one call; shared keys and values are repeated for each query head.

    scale: factor that makes a product q . k a score; None if the score is no such product. output:
    W_O by heads; head h adds its context times output[h] to the output.
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
        """Return |v[h, s] W_O^h|, the norm of each value after the head's part of W_O.

        Kobayashi et al. 2020, section 2.2.
        """
        exact = torch.promote_types(self.v.dtype, torch.float32)
        return (self.v.to(exact) @ self.output.to(exact)).norm(dim=-1)


def attention_layers(model: nn.Module) -> dict[str, Kernel]:
    """Return the kernel of each attention layer by name, in order.

    Layers that share one block (ALBERT) have a name each.
    """
    return {
        name.removesuffix(".kernel"): module
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, Kernel)
    }


def around_kernels(model: nn.Module) -> dict[Kernel, MultiHeadAttention]:
    """Return the attention that each kernel is part of."""
    return {m.kernel: m for m in model.modules() if isinstance(m, MultiHeadAttention)}


@contextmanager
def at_attention(model: nn.Module, layers: Sequence[str], act: Act) -> Iterator[list[str]]:
    """Call `act` whenever one of the chosen attention layers runs inside the `with` block.

    layers: prefixes of names ("decoder.blocks.3"); all layers if empty. Yields the names of the
    chosen layers. UsageError for a prefix that matches none.
    """
    known = attention_layers(model)
    for prefix in layers:
        if not any(name.startswith(prefix) for name in known):
            raise UsageError(
                f"no attention layer {prefix!r}; the layers are {', '.join(known) or 'none'}"
            )
    chosen = [name for name in known if not layers or name.startswith(tuple(layers))]
    names: dict[Kernel, list[str]] = {}
    for name, kernel in known.items():
        names.setdefault(kernel, []).append(name)
    handles = [
        kernel.register_forward_hook(_hook(of_kernel, set(chosen), act))
        for kernel, of_kernel in names.items()
    ]
    try:
        yield chosen
    finally:
        for handle in handles:
            handle.remove()


def _hook(
    names: list[str], chosen: set[str], act: Act
) -> Callable[[Kernel, KernelArguments, Tensor], Tensor | None]:
    """Return a hook; layers that share a kernel run in turn, so the call count tells them apart."""
    calls = 0

    def run(kernel: Kernel, inputs: KernelArguments, output: Tensor) -> Tensor | None:
        nonlocal calls
        name = names[calls % len(names)]
        calls += 1
        return act(name, kernel, inputs, output) if name in chosen else None

    return run


@contextmanager
def record_attention(model: nn.Module, layers: Sequence[str] = ()) -> Iterator[AttentionMaps]:
    """Collect the attention weights of every forward pass inside the `with` block.

    Outputs are bit-identical to a run without recording; weights are computed by `kernel.weights`
    in float32 and moved to the CPU layer by layer. layers: prefixes of the names of the layers to
    record ("decoder.blocks.3"); all if empty. UsageError for a prefix that matches none.
    """
    maps: AttentionMaps = {}

    def keep(name: str, kernel: Kernel, inputs: KernelArguments, output: Tensor) -> None:
        q, k, _, mask, *rest = inputs
        with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
            maps[name].append(kernel.weights(q, k, mask, *rest).cpu())

    with at_attention(model, layers, keep) as chosen:
        maps.update((name, []) for name in chosen)
        yield maps


@contextmanager
def record_inputs(
    model: nn.Module, layers: Sequence[str] = ()
) -> Iterator[dict[str, list[KernelInputs]]]:
    """Collect the inputs of the kernels, as `record_attention` does their weights.

    Yields a dictionary from the name of a layer to one `KernelInputs` for each call.
    """
    seen: dict[str, list[KernelInputs]] = {}
    around = around_kernels(model)

    def keep(name: str, kernel: Kernel, inputs: KernelArguments, output: Tensor) -> None:
        q, k, v, mask, *rest = inputs
        heads = q.shape[1]
        with torch.no_grad():
            weight = around[kernel].output.weight.detach()
            kernel_inputs = KernelInputs(
                q=q.detach(),
                k=spread(k.detach(), heads),
                v=spread(v.detach(), heads),
                mask=mask,
                bias=rest[0].detach() if rest and rest[0] is not None else None,
                scale=product_scale(kernel, q),
                output=weight.T.reshape(heads, v.shape[-1], -1),
            )
        seen[name].append(kernel_inputs)

    with at_attention(model, layers, keep) as chosen:
        seen.update((name, []) for name in chosen)
        yield seen


def product_scale(kernel: Kernel, q: Tensor) -> float | None:
    """Return the factor that makes a product q . k a score; None if the score is no product."""
    if isinstance(kernel, ScaledDot | LinearDot):
        return float(q.shape[-1] ** -0.5)
    return 1.0 if isinstance(kernel, Dot) else None
