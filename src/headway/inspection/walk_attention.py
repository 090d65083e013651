"""The steps of a walk through one head: norm, queries and keys, scores, mask, softmax, sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.attention import (
    GroupedQueryAttention,
    Kernel,
    Mask,
    MultiHeadAttention,
    SlidingWindow,
    SoftmaxKernel,
)
from headway.attention.kernel import masked_softmax, spread
from headway.attention.record import product_scale
from headway.blocks.residual import PostNorm
from headway.inspection.document import Step
from headway.inspection.tables import Axis, Tables, step
from headway.inspection.tracing import Trace
from headway.shapes import Tensor
from headway.transforms.fast import plain_class


@dataclass(frozen=True, kw_only=True)
class Around:
    """Where a head stands. call: which call of its modules. queries, keys: the tokens, and those
    that must be seen."""

    attention: MultiHeadAttention
    residual: nn.Module
    call: int
    head: int
    queries: Axis
    keys: Axis


@dataclass(frozen=True)
class _Inside:
    """What went into the kernel of one head, and its context; all of one row."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask
    bias: Tensor | None
    context: Tensor
    before: tuple[Tensor | None, Tensor | None]


def attention_steps(trace: Trace, at: Around, tables: Tables) -> list[Step]:
    """From what enters the sublayer to what leaves it, in the order of this model."""
    inside = _inside(trace, at)
    with torch.no_grad():
        steps = norm_step(trace, at.residual, at.call, at.queries, tables)
        steps += _projections(trace, at, inside, tables)
        steps += _scores(at, inside, tables)
        steps += _sums(trace, at, inside, tables)
        steps += residual_step(trace, at.residual, at.call, at.queries, tables)
    return steps


def _inside(trace: Trace, at: Around) -> _Inside:
    kernel, heads = at.attention.kernel, at.attention.num_heads
    q, k, v, mask, *rest = trace.all_given(kernel, at.call)
    bias = rest[0] if rest else None
    turned = trace.before_turning(q), trace.before_turning(k)
    if turned[1] is None and turned[0] is not None:  # keys that were copied for the heads since
        shared = [after for _, after in trace.turned if after.shape[1] != heads]
        near = [each for each in shared if torch.equal(spread(each, heads), k)]
        turned = turned[0], trace.before_turning(near[0]) if near else None
    before = tuple(None if x is None else spread(x, heads)[0, at.head] for x in turned)
    if bias is not None:
        bias = bias.expand(q.shape[0], heads, *bias.shape[2:])[0, at.head]
    return _Inside(
        q=q[0, at.head],
        k=spread(k, heads)[0, at.head],
        v=spread(v, heads)[0, at.head],
        mask=mask,
        bias=bias,
        context=trace.gave(kernel, at.call)[0, at.head],
        before=(before[0], before[1]),
    )


def norm_step(trace: Trace, residual: Any, call: int, rows: Axis, tables: Tables) -> list[Step]:
    """The norm before a sublayer; none where it stands after the sum."""
    if isinstance(residual, PostNorm):
        return []
    norm = residual.norm
    return [
        step(
            "Norm before the sublayer",
            "Each token's numbers are brought to one size, so that no layer must cope with any.",
            _equation_of(norm),
            type(norm).forward,
            tables.table("x", trace.given(norm, call)[0], rows, Axis()),
            tables.table("norm(x)", trace.gave(norm, call)[0], rows, Axis()),
        )
    ]


def residual_step(trace: Trace, residual: Any, call: int, rows: Axis, tables: Tables) -> list[Step]:
    """What came in plus what was found; and the norm after it, where it stands there."""
    x, change = trace.given(residual, call)[0], trace.gave(residual.dropout, call)[0]
    post = isinstance(residual, PostNorm)
    total = trace.given(residual.norm, call)[0] if post else trace.gave(residual, call)[0]
    gained = hasattr(residual, "gain")
    steps = [
        step(
            "Residual",
            "What was found is added to what came in, which so passes every layer untouched"
            + (", each number by a gain of its own." if gained else "."),
            "x ← x + g ⊙ sublayer" if gained else "x ← x + sublayer",
            type(residual).forward,
            tables.table("x", x, rows, Axis()),
            tables.table("change", change, rows, Axis()),
            tables.table("sum", total, rows, Axis()),
        )
    ]
    if post:
        norm = residual.norm
        steps.append(
            step(
                "Norm after the sum",
                "Each token's numbers are brought to one size, as in the paper of 2017.",
                _equation_of(norm),
                type(norm).forward,
                tables.table("x", total, rows, Axis()),
                tables.table("norm(x)", trace.gave(norm, call)[0], rows, Axis()),
            )
        )
    return steps


def _equation_of(norm: nn.Module) -> str:
    if hasattr(norm, "shift"):
        return "norm(x) = g ⊙ (x − mean x) / √(var x + ε) + b"
    return "norm(x) = g ⊙ x / √(mean x² + ε)"


def _projections(trace: Trace, at: Around, inside: _Inside, tables: Tables) -> list[Step]:
    attention, dims = at.attention, Axis()
    before_q, before_k = inside.before
    shared = ""
    make: Callable[..., Tensor] = MultiHeadAttention.forward
    if isinstance(attention, GroupedQueryAttention):
        make = GroupedQueryAttention.split_queries
        heads = attention.key.out_features // attention.head_dim
        own = at.head * heads // attention.num_heads
        shared = f" Keys and values are those of head {own + 1} of {heads}, which heads share."
    steps = [
        step(
            "Queries, keys, values",
            f"Head {at.head + 1} makes three vectors of width {inside.q.shape[-1]} of each token: "
            f"what it looks for, what it offers, and what is passed on.{shared}",
            "q = x W_Q + b_Q   k = y W_K + b_K   v = y W_V + b_V",
            make,
            tables.table("q", inside.q if before_q is None else before_q, at.queries, dims),
            tables.table("k", inside.k if before_k is None else before_k, at.keys, dims),
            tables.table("v", inside.v, at.keys, dims),
        )
    ]
    if before_q is not None and attention.positions is not None:
        steps.append(
            step(
                "Rotation by the place",
                "Pairs of numbers are turned by an angle that grows with the place, so that a "
                "product of q and k knows how far apart the two stand.",
                "q_t ← R(t) q_t   k_s ← R(s) k_s",
                type(attention.positions).rotate,
                tables.table("q turned", inside.q, at.queries, dims),
                tables.table("k turned", inside.k, at.keys, dims),
            )
        )
    return steps


def _scores(at: Around, inside: _Inside, tables: Tables) -> list[Step]:
    """From products to weights, by what the kernel says they are."""
    kernel = at.attention.kernel
    scale = product_scale(kernel, inside.q)
    steps = []
    if isinstance(kernel, SoftmaxKernel):
        scores = _scores_of(at, inside)
        if scale is not None and scale != 1:
            steps.append(
                step(
                    "Scores",
                    "The product of a query and a key is large where they point one way.",
                    "s = q · k",
                    plain_class(kernel).scores,
                    tables.table("q · k", scores / scale, at.queries, at.keys),
                )
            )
        steps.append(
            step(
                "Scores" if not steps else "Scale",
                "The kernel's score of every pair."
                if not steps
                else f"Products of {inside.q.shape[-1]} numbers have that variance; divided by its "
                "root, the softmax does not saturate.",
                "s = q · k / √K" if steps else ("s = q · k" if scale else "s = score(q, k)"),
                plain_class(kernel).scores,
                tables.table("s", scores, at.queries, at.keys),
            )
        )
    steps += _bias_and_mask(at, inside, tables)
    weights = _weights_of(at, inside)
    row = weights[at.queries.keep]
    best = int(row.argmax())
    looks = f"{at.queries.names[at.queries.keep]!r} takes most from {at.keys.names[best]!r}"
    shares = isinstance(kernel, SoftmaxKernel)
    steps.append(
        step(
            "Softmax" if shares else "Weights",
            ("Scores become shares of 1. " if shares else "This kernel has no softmax. ")
            + f"{looks}: {float(row[best]):.3f}.",
            "a = exp(s) / Σ exp(s)" if shares else "a = score(q, k)",
            masked_softmax if shares else plain_class(kernel).weights,
            tables.table("a", weights, at.queries, at.keys),
        )
    )
    return steps


def _scores_of(at: Around, inside: _Inside) -> Tensor:
    """Those of this head, by the kernel's own `scores` of all heads."""
    kernel = at.attention.kernel
    assert isinstance(kernel, SoftmaxKernel)
    found: Tensor = kernel.scores(*(_among(x, at) for x in (inside.q, inside.k)))[0, at.head]
    return found


def _weights_of(at: Around, inside: _Inside) -> Tensor:
    kernel: Kernel = at.attention.kernel
    bias = None if inside.bias is None else _among(inside.bias, at)
    q, k = (_among(x, at) for x in (inside.q, inside.k))
    found: Tensor = kernel.weights(q, k, inside.mask, bias)[0, at.head]
    return found


def _among(x: Tensor, at: Around) -> Tensor:
    """One head's matrix at its place among all heads: kernels have parameters of each."""
    return x.expand(1, at.attention.num_heads, *x.shape)


def _bias_and_mask(at: Around, inside: _Inside, tables: Tables) -> list[Step]:
    steps = []
    if inside.bias is not None and at.attention.positions is not None:
        steps.append(
            step(
                "Bias by the distance",
                "A number for each distance is added to the scores: that is how this model knows "
                "order.",
                "s ← s + b(t − s)",
                type(at.attention.positions).bias,
                tables.table("bias", inside.bias, at.queries, at.keys),
            )
        )
    kernel = at.attention.kernel
    mask = kernel.narrowed(inside.mask) if isinstance(kernel, SlidingWindow) else inside.mask
    size = len(inside.q), len(inside.k)
    allowed = mask.dense(*size, inside.q.device)[0, 0].float()
    if bool((allowed == 1).all()):
        return steps
    hidden = int(len(inside.k) - allowed[at.queries.keep].sum())
    steps.append(
        step(
            "Mask",
            "1 where a token may look, 0 where it may not: the score there counts as −∞. "
            f"{hidden} of {len(inside.k)} are hidden from {at.queries.names[at.queries.keep]!r}.",
            "s ← s where allowed, −∞ elsewhere",
            Mask.dense,
            tables.table("allowed", allowed, at.queries, at.keys),
        )
    )
    return steps


def _sums(trace: Trace, at: Around, inside: _Inside, tables: Tables) -> list[Step]:
    kernel, output = at.attention.kernel, at.attention.output
    together = trace.given(output, at.call)[0]
    width = inside.v.shape[-1]
    heads = Axis(
        [f"h{i // width}.{i % width}" for i in range(together.shape[-1])],
        (at.head + 1) * width - 1,
    )
    return [
        step(
            "Weighted sum",
            "The values are summed by the weights: what this head found for each token.",
            "c_t = Σ_s a_ts v_s",
            plain_class(kernel).forward,
            tables.table("context", inside.context, at.queries, Axis()),
        ),
        step(
            "All heads together",
            f"The contexts of {at.attention.num_heads} heads stand side by side, and one matrix "
            "mixes them back to the model's width.",
            "out = [c¹ … cᴴ] W_O + b_O",
            MultiHeadAttention.forward,
            tables.table("heads", together, at.queries, heads),
            tables.table("out", trace.gave(output, at.call)[0], at.queries, Axis()),
        ),
    ]
