"""Attention of one new token of each text: its key and value are stored, and it attends to all.

The kernel writes into the tensors of a cache of fixed size and reads only the keys that are there,
and heads that share keys do not copy them. It replaces two writes, a mask and torch's attention.
"""

import math

import triton
import triton.language as tl
from triton.language.extra import cuda

from headway.base.shapes import Float, Int, Tensor
from headway.transforms.kernels import starts_early

FEW_PROGRAMS = 256
"""Heads of all texts up to which a program has many warps: a GPU runs as many programs at once."""


def attend_new_tokens(
    q: Float[Tensor, "N H 1 K"],
    k: Float[Tensor, "N G 1 K"],
    v: Float[Tensor, "N G 1 Kv"],
    stores: tuple[Float[Tensor, "N G S K"], Float[Tensor, "N G S Kv"]],
    past: Int[Tensor, " N"],
) -> Float[Tensor, "N H 1 Kv"]:
    """Store k and v at position past[n] of row n; return softmax(q K^T / sqrt(K)) V over the
    positions 0 ... past[n], computed in float32."""
    (num_rows, heads, _, size), groups, value_size = q.shape, k.shape[1], v.shape[3]
    q, k, v = (x if x[0].is_contiguous() else x.contiguous() for x in (q, k, v))
    context = q.new_empty(num_rows, heads, 1, value_size)
    is_few = num_rows * heads <= FEW_PROGRAMS
    early = starts_early(q.device)
    _attend_new_token[(num_rows, heads)](
        q,
        k,
        v,
        *stores,
        past,
        context,
        q.stride(0),
        k.stride(0),
        v.stride(0),
        stores[0].shape[2],
        1 / math.sqrt(size),
        heads=heads,
        groups=groups,
        size=size,
        value_size=value_size,
        width=triton.next_power_of_2(size),
        value_width=triton.next_power_of_2(value_size),
        block=128 if is_few else 64,
        early=early,
        num_warps=8 if is_few else 4,
        launch_pdl=early,
    )
    return context


@triton.jit  # type: ignore[untyped-decorator]
def _attend_new_token(  # type: ignore[no-untyped-def]
    q,
    k,
    v,
    keys,
    values,
    past,
    context,
    q_stride,
    k_stride,
    v_stride,
    capacity,
    scale,
    heads: tl.constexpr,
    groups: tl.constexpr,
    size: tl.constexpr,
    value_size: tl.constexpr,
    width: tl.constexpr,
    value_width: tl.constexpr,
    block: tl.constexpr,
    early: tl.constexpr,
):
    """One program for each row and head, with the strides of rows. early: the first keys and
    values, which earlier steps stored, are read while the kernel before still runs."""
    if early:
        cuda.gdc_launch_dependents()
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    group = head // (heads // groups)
    d, e = tl.arange(0, width), tl.arange(0, value_width)
    in_key, in_value = d < size, e < value_size
    count = tl.load(past + row)
    first = (row * groups + group) * capacity  # of the vectors in the store
    keys, values = keys + first * size, values + first * value_size
    key = _vectors(keys, tl.arange(0, block), count, d, size)
    value = _vectors(values, tl.arange(0, block), count, e, value_size)
    if early:
        cuda.gdc_wait()
    query = tl.load(q + row * q_stride + head * size + d, mask=in_key, other=0.0).to(tl.float32)
    query *= scale
    new_key = tl.load(k + row * k_stride + group * size + d, mask=in_key, other=0.0)
    new_value = tl.load(v + row * v_stride + group * value_size + e, mask=in_value, other=0.0)
    # the new token itself: its score is the largest one so far, and its weight is exp(0)
    largest, total = tl.sum(query * new_key.to(tl.float32), 0), 1.0
    sums = new_value.to(tl.float32)
    for start in range(0, count, block):
        s = start + tl.arange(0, block)
        scores = tl.where(s < count, tl.sum(key * query[None, :], 1), -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 0))
        weights, shrunk = tl.exp(scores - larger), tl.exp(largest - larger)
        total = total * shrunk + tl.sum(weights, 0)
        sums = sums * shrunk + tl.sum(weights[:, None] * value, 0)
        largest = larger
        key = _vectors(keys, s + block, count, d, size)
        value = _vectors(values, s + block, count, e, value_size)
    if head % (heads // groups) == 0:  # of the heads that share the key, one stores it
        tl.store(keys + count * size + d, new_key, mask=in_key)
        tl.store(values + count * value_size + e, new_value, mask=in_value)
    out = (sums / total).to(context.dtype.element_ty)
    tl.store(context + (row * heads + head) * value_size + e, out, mask=in_value)


@triton.jit  # type: ignore[untyped-decorator]
def _vectors(store, positions, count, features, size: tl.constexpr):  # type: ignore[no-untyped-def]
    """Read the vectors at these positions of a head, in float32; 0 from `count` on."""
    is_there = (positions < count)[:, None] & (features < size)[None, :]
    at = positions[:, None] * size + features[None, :]
    return tl.load(store + at, mask=is_there, other=0.0).to(tl.float32)
