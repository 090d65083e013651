"""Sublayers of a decoder by compiled loops, for one new token of each of a few rows on a CPU.

    x = x + f(norm(x)),   f: self-attention, cross-attention or a feed-forward network

with the norms, windows, limits and positions of the families of language models.

A step of decoding of a few texts is bound by reading the weights, and by the time that each of some
25 operations of torch takes in every block. Here a sublayer is one call (`sublayers.h`), which
reads the parameters of the modules, and reads and writes the tensors of the cache, in place.
"""

import ctypes
import threading
from collections.abc import Mapping, MutableMapping, Sequence
from ctypes import c_double, c_int64, c_void_p
from dataclasses import dataclass, replace
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import nn

from headway.attention import (
    AdjacentRotary,
    AttentionPositions,
    GroupedQueryAttention,
    KeyValueCache,
    KeyValues,
    LayerCache,
    Mask,
    PartialRotary,
    Rotary,
    Step,
)
from headway.base.shapes import Float, Int, Tensor
from headway.blocks import (
    AcrossHeads,
    DecoderBlock,
    DecoderOnlyBlock,
    FeedForward,
    GainNorm,
    GatedFeedForward,
    InnerNorm,
    LayerNorm,
    MultipliedPreNorm,
    OffsetRMSNorm,
    ParallelBlock,
    PlainNorm,
    PostNorm,
    PreNorm,
    RMSNorm,
    SandwichNorm,
)
from headway.blocks.stack import Stack
from headway.transforms.fast import loops
from headway.transforms.fast.cache import FastCache
from headway.transforms.fast.dot import FastCappedDot, FusedDot
from headway.transforms.fast.joint import as_one
from headway.transforms.fast.linear import FastLinear
from headway.transforms.fast.loops import CodedMatrix, Matrix, address
from headway.transforms.fast.multihead import FastGroupedQueryAttention, FastMultiHeadAttention
from headway.transforms.fast.quantized import (
    FastBFloat16Linear,
    FastCodedLinear,
    FastInt4Linear,
    FastInt8Linear,
    joined_codes,
    joint_bias,
)
from headway.transforms.fast.window import FastSlidingWindow
from headway.transforms.kernels import activation_name
from headway.transforms.tracing import tracing
from headway.transforms.twins import plain_class

ROWS = 128
"""Most rows for which the loops are faster than torch."""

ACTIVATIONS = {"relu": 0, "gelu": 1, "gelu-tanh": 2, "silu": 3}
NORMS: Mapping[type[nn.Module], int] = {
    nn.Identity: 0,
    LayerNorm: 1,
    GainNorm: 1,
    PlainNorm: 1,
    RMSNorm: 2,
    OffsetRMSNorm: 3,
}
"""Numbers of activations and norms, as `loops.c` numbers them."""
RESIDUALS = (PreNorm, PostNorm, InnerNorm, SandwichNorm, MultipliedPreNorm)


def _integers(names: str) -> list[tuple[str, type[c_int64]]]:
    return [(name, c_int64) for name in names.split()]


def _pointers(names: str) -> list[tuple[str, type[c_void_p]]]:
    return [(name, c_void_p) for name in names.split()]


class _Norm(ctypes.Structure):
    _fields_ = (*_integers("kind"), *_pointers("gain shift"), ("eps", c_double))


class _Connection(ctypes.Structure):
    _fields_ = (
        *_integers("set threads rows dim is_post"),
        ("around", _Norm),
        ("after", _Norm),
        ("factor", c_double),
        *_pointers("x source"),
    )


class _FeedForward(ctypes.Structure):
    _fields_ = (
        ("around", _Connection),
        *_integers("num_first is_gated activation"),
        ("first", Matrix * 2),
        ("contract", Matrix),
    )


class _Attention(ctypes.Structure):
    _fields_ = (
        ("around", _Connection),
        *_integers("num_inputs heads shared width value_width window across"),
        ("scale", c_double),
        ("cap", c_double),
        ("inputs", Matrix * 3),
        ("output", Matrix),
        ("query_norm", _Norm),
        ("key_norm", _Norm),
        *_pointers("cos sin"),
        *_integers("rotated is_adjacent angle_stride"),
        *_pointers("keys values"),
        *_integers("capacity"),
        *_pointers("position"),
        *_integers("position_stride"),
        *_pointers("token_rows"),
        *_integers("token_stride is_cross num_keys sharing"),
        *_pointers("real places"),
    )


@dataclass(frozen=True)
class _Block:
    """The sublayers of a block in their order. scheme: where its tokens are, for self-attention.
    is_parallel: whether all sublayers read the input of the block."""

    sublayers: Sequence[_Attention | _FeedForward]
    scheme: AttentionPositions | None
    is_parallel: bool


class LoopedStack:
    """The sublayers of a decoder as the compiled loops read them, for searches that start now.

    The parameters may change their values, but not their memory, while a text is generated.
    """

    def __init__(self, stack: Stack) -> None:
        self._kept: list[object] = []  # what no module has
        self._lock = threading.Lock()  # the structures are filled in for each step
        self._hooks = [
            hooks
            for block in stack.blocks
            for module in block.modules()
            if module is not block  # whose `step` is no call of the module
            for hooks in (module._forward_hooks, module._forward_pre_hooks)
        ]
        self._blocks = [self._block(block) for block in stack.blocks]
        self._schemes = {block.scheme for block in self._blocks}

    def suits(
        self, x: Float[Tensor, "N T D"], cache: KeyValueCache, sources: Sequence[KeyValues] = ()
    ) -> bool:
        """Whether the loops compute this step. sources: as in `step`."""
        return (
            x.shape[1] == 1
            and 0 < x.shape[0] <= ROWS
            and x.dtype == torch.float32
            and x.is_cpu
            and not torch.is_grad_enabled()
            and isinstance(cache, FastCache)
            and cache.dtype == torch.float32
            and all(k.dtype == torch.float32 and k.is_contiguous() for s in sources for k in s)
            and not any(self._hooks)
            and not torch.is_autocast_enabled("cpu")
            and not tracing(x)
        )

    def step(
        self,
        x: Float[Tensor, "N 1 D"],
        step: Step,
        cache: KeyValueCache,
        sources: Sequence[KeyValues] = (),
        source_mask: Mask | None = None,
    ) -> Float[Tensor, "N 1 D"]:
        """Return the output of the last block; keys and values are appended to the cache.

        sources: keys and values for cross-attention, by layer.
        """
        assert isinstance(cache, FastCache)
        x = x.clone(memory_format=torch.contiguous_format)
        layers, token_rows = cache.in_place()
        if source_mask is not None and source_mask.keys is not None:
            source_mask = replace(source_mask, keys=source_mask.keys.contiguous())
        placed = {scheme: step.placed(scheme, x.dtype) for scheme in self._schemes}
        with self._lock:
            for number, (layer, block) in enumerate(zip(layers, self._blocks, strict=True)):
                before = x.clone() if block.is_parallel else x
                for part in block.sublayers:
                    if isinstance(part, _Attention) and part.is_cross:
                        assert source_mask is not None
                        _place_source(part, len(x), sources[number], source_mask)
                    elif isinstance(part, _Attention):
                        _place(part, len(x), placed[block.scheme], layer, token_rows)
                    _compute(part, x, before)
        return x

    def _block(self, block: nn.Module) -> _Block:
        assert isinstance(block, DecoderOnlyBlock | DecoderBlock)
        parts: list[_Attention | _FeedForward] = [
            self._attention(block.attention, block.around_attention, is_cross=False)
        ]
        if isinstance(block, DecoderBlock):
            parts.append(self._attention(block.cross, block.around_cross, is_cross=True))
        parts.append(self._feedforward(block.feedforward, block.around_feedforward))
        return _Block(parts, block.attention.positions, isinstance(block, ParallelBlock))

    def _feedforward(self, network: Any, residual: Any) -> _FeedForward:
        is_gated = isinstance(network, GatedFeedForward)
        layers = [network.gate, network.expand] if is_gated else [network.expand]
        first, contract = self._matrices(layers), self._matrices([network.contract])[0]
        return _FeedForward(
            around=_connection(residual, contract),
            num_first=len(first),
            is_gated=is_gated,
            activation=ACTIVATIONS[activation_name(network.activation) or ""],
            first=(Matrix * 2)(*first),
            contract=contract,
        )

    def _attention(self, attention: Any, residual: Any, is_cross: bool) -> _Attention:
        layers = [attention.query, attention.key, attention.value]
        inputs = self._matrices(layers[:1] if is_cross else layers)
        output = self._matrices([attention.output])[0]
        made = _Attention(
            around=_connection(residual, output),
            num_inputs=len(inputs),
            heads=attention.num_heads,
            shared=attention.num_heads * attention.head_dim // attention.key.out_features,
            width=attention.head_dim,
            value_width=attention.value_dim,
            window=getattr(attention.kernel, "window", None) or 0,
            scale=getattr(attention.kernel, "scale", None) or 0.0,
            cap=getattr(attention.kernel, "cap", None) or 0.0,
            inputs=(Matrix * 3)(*inputs),
            output=output,
            is_adjacent=type(_rotary(attention.positions)) is AdjacentRotary,
            is_cross=is_cross,
        )
        if isinstance(attention, GroupedQueryAttention):
            made.across = isinstance(attention.query_norm, AcrossHeads)
            made.query_norm, made.key_norm = map(_norm, _head_norms(attention))
        return made

    def _matrices(self, layers: Sequence[nn.Linear]) -> list[Matrix]:
        """Return the matrices of layers with the same inputs, as few as possible."""
        coded = [layer for layer in layers if isinstance(layer, FastCodedLinear)]
        if 0 < len(coded) < len(layers):  # small layers keep their numbers
            return [matrix for layer in layers for matrix in self._matrices([layer])]
        if coded:
            packed = joined_codes(coded)
            assert isinstance(packed, CodedMatrix)
            bias = joint_bias(layers)
            self._kept += [packed, bias]
            return [packed.matrix(bias, layers[0].in_features)]
        weights, biases = [_weight(layer) for layer in layers], [layer.bias for layer in layers]
        joined = as_one(weights, biases)
        if joined is not None:
            self._kept += joined
            return [Matrix.of(*joined)]
        return [Matrix.of(weight, bias) for weight, bias in zip(weights, biases, strict=True)]


def _compute(
    part: _Attention | _FeedForward, x: Float[Tensor, "N 1 D"], source: Float[Tensor, "N 1 D"]
) -> None:
    """Replace x by the result of a sublayer, which reads `source`: x itself unless sublayers are
    parallel."""
    library, around = loops.library(), part.around
    assert library is not None
    around.rows, around.threads = len(x), torch.get_num_threads()
    around.x, around.source = x.data_ptr(), source.data_ptr()
    is_attention = isinstance(part, _Attention)
    function = library.headway_attention if is_attention else library.headway_feedforward
    if function(ctypes.byref(part)):
        raise MemoryError(f"no memory for a step of {len(x)} texts")


def _place(
    part: _Attention,
    rows: int,
    step: Step,
    layer: LayerCache,
    token_rows: Int[Tensor, "N C"] | None,
) -> None:
    """Let self-attention read and write the cache at the positions of the step."""
    layer.make_room((), rows, step.num_keys)
    keys, values = layer.stores
    part.keys, part.values, part.capacity = keys.data_ptr(), values.data_ptr(), keys.shape[2]
    part.num_keys, part.position = step.num_keys, step.positions.data_ptr()
    part.position_stride = len(step.positions) > 1
    part.token_rows = address(token_rows)
    part.token_stride = 0 if token_rows is None else token_rows.shape[1]
    if step.cos_sin is not None:
        cos, sin = step.cos_sin
        part.cos, part.sin, part.rotated = cos.data_ptr(), sin.data_ptr(), 2 * cos.shape[-1]
        part.angle_stride = cos.shape[-1] if len(cos) > 1 else 0


def _place_source(part: _Attention, rows: int, source: KeyValues, mask: Mask) -> None:
    """Let cross-attention read the keys and values of the sources."""
    k, v = source
    part.keys, part.values, part.capacity = k.data_ptr(), v.data_ptr(), k.shape[2]
    part.num_keys, part.real = k.shape[2], address(mask.keys)
    sequences, part.places = mask.sharing.sequences, address(mask.sharing.places)
    part.sharing = (rows if sequences is None else len(sequences)) // len(k)


def looped_stack(stack: Stack, cache: KeyValueCache) -> LoopedStack | None:
    """Return the loops for the searches of a cache; None if they cannot compute this stack.

    The modules are looked at once for each cache.
    """
    if type(cache) is not FastCache or stack.training:  # other caches have rules of their own
        return None
    if not cache.is_looked_at:
        cache.is_looked_at, cache.looped = True, _of_modules(stack)
    return cast("LoopedStack | None", cache.looped)


_LOOPED: MutableMapping[Stack, tuple[list[int], LoopedStack | None]] = WeakKeyDictionary()
"""Stack -> the identities of its modules and the addresses of its parameters, and its loops, which
do not refer to the stack, so that it is freed."""


def _of_modules(stack: Stack) -> LoopedStack | None:
    library = loops.library()
    if library is None or not loops.instructions():
        return None
    sizes = (ctypes.sizeof(_Attention), ctypes.sizeof(_FeedForward))
    if (library.headway_size(1), library.headway_size(2)) != sizes:  # another version of Headway
        return None
    state = [
        number
        for module in stack.modules()
        for number in (
            id(type(module)),
            *map(id, module._modules.values()),
            *(p.data_ptr() for p in module._parameters.values() if p is not None),
            id(getattr(module, "packed", None)),
        )
    ]
    known = _LOOPED.get(stack)
    if known is None or known[0] != state:
        can_loop = all(map(_computes, stack.blocks))
        known = _LOOPED[stack] = state, LoopedStack(stack) if can_loop else None
    return known[1]


def _computes(block: nn.Module) -> bool:
    """Whether the loops compute every module of a block."""
    if plain_class(block) not in (DecoderOnlyBlock, ParallelBlock, DecoderBlock):
        return False
    named: dict[str, Any] = dict(block.named_children())
    attentions = [named[name] for name in ("attention", "cross") if name in named]
    network = named["feedforward"]
    residuals = [module for name, module in named.items() if name.startswith("around_")]
    layers = [module for module in block.modules() if isinstance(module, nn.Linear)]
    heads = [attention for attention in attentions if isinstance(attention, GroupedQueryAttention)]
    norms = [
        getattr(around, name)
        for around in residuals
        for name in ("norm", "after_norm")
        if hasattr(around, name)
    ]
    norms += [norm for attention in heads for norm in _head_norms(attention)]
    return (
        all(
            type(attention) in (FastMultiHeadAttention, FastGroupedQueryAttention)
            and type(attention.kernel) in (FusedDot, FastSlidingWindow, FastCappedDot)
            and type(_rotary(attention.positions)) in (type(None), Rotary, AdjacentRotary)
            for attention in attentions
        )
        and plain_class(network) in (FeedForward, GatedFeedForward)
        and activation_name(network.activation) in ACTIVATIONS
        and all(plain_class(around) in RESIDUALS for around in residuals)
        and all(type(norm) in NORMS for norm in norms)
        and all(map(_is_readable, layers))
        and all(
            x.dtype == torch.float32 and x.is_cpu and x.is_contiguous()
            for x in block.parameters()
            if x.ndim == 1 and x.numel()  # codes that were released have no numbers
        )
    )


def _head_norms(attention: GroupedQueryAttention) -> list[nn.Module]:
    """Return the norms of the queries and of the keys."""
    norms = attention.query_norm, attention.key_norm
    return [norm.norm if isinstance(norm, AcrossHeads) else norm for norm in norms]


def _rotary(positions: nn.Module | None) -> nn.Module | None:
    """Return the position scheme of the dimensions that a scheme rotates."""
    return positions.rotary if type(positions) is PartialRotary else positions


def _is_readable(layer: nn.Linear) -> bool:
    """Whether the loops read the numbers of a layer as they are."""
    if type(layer) in (FastInt8Linear, FastInt4Linear):
        return bool(layer.weight_scale.is_cpu)
    if type(layer) not in (FastLinear, FastBFloat16Linear):
        return False
    weight = _weight(layer)
    return (
        weight.is_cpu
        and weight.is_contiguous()
        and weight.dtype in (torch.float32, torch.bfloat16)
        and not getattr(layer, "invariant", False)
    )


def _weight(layer: nn.Linear) -> Tensor:
    if isinstance(layer, FastBFloat16Linear):
        return layer.stored()["weight_bfloat16"]
    return layer.weight


def _connection(residual: Any, last: Matrix) -> _Connection:
    is_inner, none = isinstance(residual, InnerNorm), nn.Identity()
    return _Connection(
        set=loops.instructions(),
        dim=last.outputs,
        is_post=isinstance(residual, PostNorm),
        around=_norm(none if is_inner else residual.norm),
        after=_norm(residual.norm if is_inner else getattr(residual, "after_norm", none)),
        factor=getattr(residual, "scale", 1.0),
    )


def _norm(norm: Any) -> _Norm:
    kind = NORMS[type(norm)]
    if not kind:
        return _Norm()
    gain, shift = (address(getattr(norm, name, None)) for name in ("gain", "shift"))
    return _Norm(kind, gain, shift, norm.eps)
