"""The steps of a walkthrough of one head: norm, queries and keys, scores, mask, softmax, sum."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.attention import (
    CappedDot,
    DisentangledAttention,
    GroupedQueryAttention,
    Kernel,
    Mask,
    MultiHeadAttention,
    SinkDot,
    SlidingWindow,
    SoftmaxKernel,
)
from headway.attention.kernel import masked_softmax, spread
from headway.attention.record import product_scale
from headway.base.shapes import Tensor
from headway.blocks import GainNorm, OffsetRMSNorm, PlainNorm
from headway.blocks.residual import InnerNorm, PostNorm, SandwichNorm
from headway.inspection.document import Step
from headway.inspection.tables import Axis, Tables, quoted, step
from headway.inspection.tracing import Trace
from headway.transforms.twins import plain_class


@dataclass(frozen=True, kw_only=True)
class Around:
    """The head of a walkthrough and its surroundings.

    call: number of the call of its modules, if layers share them. queries, keys: the tokens, and
    the index of the one that must be shown.
    """

    attention: MultiHeadAttention
    residual: nn.Module
    call: int
    head: int
    queries: Axis
    keys: Axis


@dataclass(frozen=True)
class _Inside:
    """Inputs of the kernel for one head, and its output (context), for one sequence.

    before: queries and keys before rotation by their positions, None if they are not rotated.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask
    bias: Tensor | None
    context: Tensor
    before: tuple[Tensor | None, Tensor | None]


def attention_steps(trace: Trace, at: Around, tables: Tables) -> list[Step]:
    """Return the steps from the input of an attention sublayer to its output."""
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
    q, k, v, mask, *rest = trace.all_inputs(kernel, at.call)
    bias = rest[0] if rest else None
    turned = trace.before_rotation(q), trace.before_rotation(k)
    if turned[1] is None and turned[0] is not None:  # keys of groups, copied for their heads
        shared = [after for _, after in trace.turned if after.shape[1] != heads]
        matching = [keys for keys in shared if torch.equal(spread(keys, heads), k)]
        turned = turned[0], trace.before_rotation(matching[0]) if matching else None
    before = tuple(None if x is None else spread(x, heads)[0, at.head] for x in turned)
    if bias is not None:
        bias = bias.expand(q.shape[0], heads, *bias.shape[2:])[0, at.head]
    return _Inside(
        q=q[0, at.head],
        k=spread(k, heads)[0, at.head],
        v=spread(v, heads)[0, at.head],
        mask=mask,
        bias=bias,
        context=trace.output_of(kernel, at.call)[0, at.head],
        before=(before[0], before[1]),
    )


def norm_step(trace: Trace, residual: Any, call: int, rows: Axis, tables: Tables) -> list[Step]:
    """Return the step of the norm before a sublayer; none if there is none, as in a post-norm
    model."""
    if isinstance(residual, PostNorm | InnerNorm) or isinstance(residual.norm, nn.Identity):
        return []
    text = (
        "The vector of each token is normalised, which keeps the inputs of all layers on one scale "
        "(pre-norm)."
    )
    return [_norm("Norm before the sublayer", text, trace, residual.norm, call, rows, tables)]


def residual_step(trace: Trace, residual: Any, call: int, rows: Axis, tables: Tables) -> list[Step]:
    """Return the step of the residual sum, and in a post-norm model the step of its norm."""
    x, change = trace.input_of(residual, call)[0], trace.output_of(residual.dropout, call)[0]
    post = isinstance(residual, PostNorm)
    total = trace.input_of(residual.norm, call)[0] if post else trace.output_of(residual, call)[0]
    gained = hasattr(residual, "gain")
    steps = _norm_of_change(trace, residual, call, rows, tables)
    steps += [
        step(
            "Residual",
            "The output of the sublayer is added to its input"
            + (", with a learned gain for each dimension." if gained else "."),
            "x ← x + g ⊙ sublayer" if gained else "x ← x + sublayer",
            plain_class(residual).forward,
            tables.table("x", x, rows, Axis()),
            tables.table("change", change, rows, Axis()),
            tables.table("sum", total, rows, Axis()),
        )
    ]
    if post:
        text = (
            "The vector of each token is normalised after the sum (post-norm, as in the original "
            "Transformer)."
        )
        steps.append(_norm("Norm after the sum", text, trace, residual.norm, call, rows, tables))
    return steps


def _norm_of_change(
    trace: Trace, residual: Any, call: int, rows: Axis, tables: Tables
) -> list[Step]:
    """Return the step of a norm between a sublayer and the residual sum; none in most models."""
    if not isinstance(residual, InnerNorm | SandwichNorm):
        return []
    norm = residual.norm if isinstance(residual, InnerNorm) else residual.after_norm
    text = (
        "The output of the sublayer is normalised before it is added, so that what each sublayer "
        "adds has a known size."
    )
    return [_norm("Norm after the sublayer", text, trace, norm, call, rows, tables)]


def _norm(
    title: str, text: str, trace: Trace, norm: Any, call: int, rows: Axis, tables: Tables
) -> Step:
    """Return the step of one call of a norm."""
    return step(
        title,
        text,
        _equation_of(norm),
        type(norm).forward,
        tables.table("x", trace.input_of(norm, call)[0], rows, Axis()),
        tables.table("norm(x)", trace.output_of(norm, call)[0], rows, Axis()),
    )


def _equation_of(norm: nn.Module) -> str:
    if isinstance(norm, OffsetRMSNorm):
        return "norm(x) = (1 + g) ⊙ x / √(mean x² + ε)"
    if isinstance(norm, GainNorm):
        return "norm(x) = g ⊙ (x − mean x) / √(var x + ε)"
    if isinstance(norm, PlainNorm):
        return "norm(x) = (x − mean x) / √(var x + ε)"
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
        group = at.head * heads // attention.num_heads
        shared = f" Keys and values are those of group {group + 1} of {heads}, shared by its heads."
    steps = [
        step(
            "Queries, keys, values",
            f"Head {at.head + 1} projects each token to a query, a key and a value; queries and "
            f"keys have width {inside.q.shape[-1]}.{shared}",
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
                "Rotary positions",
                "Pairs of dimensions are rotated by an angle that grows with the position, so that "
                "q · k depends on the distance of the two tokens.",
                "q_t ← R(t) q_t   k_s ← R(s) k_s",
                type(attention.positions).rotate,
                tables.table("q rotated", inside.q, at.queries, dims),
                tables.table("k rotated", inside.k, at.keys, dims),
            )
        )
    return steps


def _scores(at: Around, inside: _Inside, tables: Tables) -> list[Step]:
    """Return the steps from dot products to attention weights."""
    kernel = at.attention.kernel
    scale = product_scale(kernel, inside.q)
    steps = []
    if isinstance(kernel, SoftmaxKernel):
        scores = _scores_of(at, inside)
        if scale is not None and scale != 1:
            steps.append(
                step(
                    "Scores",
                    "The dot product of a query and a key is large if they point in the same "
                    "direction.",
                    "s = q · k",
                    plain_class(kernel).scores,
                    tables.table("q · k", scores / scale, at.queries, at.keys),
                )
            )
        steps.append(
            step(
                "Scores" if not steps else "Scale",
                "The score of every pair of query and key."
                if not steps
                else f"The variance of a dot product grows with its width {inside.q.shape[-1]}; "
                "scores are divided by its root so that the softmax does not saturate.",
                "s = q · k / √K" if steps else ("s = q · k" if scale else "s = score(q, k)"),
                plain_class(kernel).scores,
                tables.table("s", scores, at.queries, at.keys),
            )
        )
    steps += _bias_and_mask(at, inside, tables)
    weights = _weights_of(at, inside)
    row = weights[at.queries.keep]
    best = int(row.argmax())
    largest = (
        f"{quoted(at.queries.names[at.queries.keep])} attends most to {quoted(at.keys.names[best])}"
    )
    shares = isinstance(kernel, SoftmaxKernel)
    total, equation = "1", "a = exp(s) / Σ exp(s)"
    if isinstance(kernel, SinkDot):
        sink = kernel.sinks[at.head].item()
        total = f"less than 1, because a learned score of the head, {sink:.2f}, takes a part"
        equation = "a = exp(s) / (exp(sink) + Σ exp(s))"
    steps.append(
        step(
            "Softmax" if shares else "Weights",
            (
                f"The scores of each query become weights that sum to {total}; "
                if shares
                else "This score has no softmax; "
            )
            + f"{largest}: {float(row[best]):.3f}.",
            equation if shares else "a = score(q, k)",
            masked_softmax if shares else plain_class(kernel).weights,
            tables.table("a", weights, at.queries, at.keys),
        )
    )
    return steps


def _scores_of(at: Around, inside: _Inside) -> Tensor:
    """Return the scores of this head, computed by the kernel."""
    kernel = at.attention.kernel
    assert isinstance(kernel, SoftmaxKernel)
    scores: Tensor = kernel.scores(*(_among(x, at) for x in (inside.q, inside.k)))[0, at.head]
    return scores


def _weights_of(at: Around, inside: _Inside) -> Tensor:
    kernel: Kernel = at.attention.kernel
    bias = None if inside.bias is None else _among(inside.bias, at)
    q, k = (_among(x, at) for x in (inside.q, inside.k))
    weights: Tensor = kernel.weights(q, k, inside.mask, bias)[0, at.head]
    return weights


def _among(x: Tensor, at: Around) -> Tensor:
    """Expand the matrix of one head to all heads, because kernels have parameters for each head."""
    return x.expand(1, at.attention.num_heads, *x.shape)


def _bias_and_mask(at: Around, inside: _Inside, tables: Tables) -> list[Step]:
    steps = []
    if inside.bias is not None and at.attention.positions is not None:
        steps.append(
            step(
                "Position bias",
                "A bias that depends on the distance of query and key is added to the scores.",
                "s ← s + b(t − s)",
                type(at.attention.positions).bias,
                tables.table("bias", inside.bias, at.queries, at.keys),
            )
        )
    if inside.bias is not None and isinstance(at.attention, DisentangledAttention):
        steps.append(
            step(
                "Words and distances",
                "The query is compared with the vector of the distance, and that vector with the "
                "key; both are added to the scores.",
                "s ← s + (q_t · k_b + q_b · k_s) / √(3K), b = b(t − s)",
                DisentangledAttention.distance_scores,
                tables.table("of distances", inside.bias, at.queries, at.keys),
            )
        )
    kernel = at.attention.kernel
    mask = inside.mask
    if isinstance(kernel, SlidingWindow | CappedDot):
        mask = kernel.narrowed(mask)
    size = len(inside.q), len(inside.k)
    allowed = mask.dense(*size, inside.q.device)[0, 0].float()
    if bool((allowed == 1).all()):
        return steps
    hidden = int(len(inside.k) - allowed[at.queries.keep].sum())
    steps.append(
        step(
            "Mask",
            "1 where a query may attend to a key, 0 where it may not: masked scores are set to −∞. "
            f"For {quoted(at.queries.names[at.queries.keep])}, {hidden} of {len(inside.k)} keys "
            "are masked.",
            "s ← s where allowed, −∞ elsewhere",
            Mask.dense,
            tables.table("allowed", allowed, at.queries, at.keys),
        )
    )
    return steps


def _sums(trace: Trace, at: Around, inside: _Inside, tables: Tables) -> list[Step]:
    kernel, output = at.attention.kernel, at.attention.output
    merged = trace.input_of(output, at.call)[0]
    width = inside.v.shape[-1]
    heads = Axis(
        [f"h{i // width}.{i % width}" for i in range(merged.shape[-1])],
        (at.head + 1) * width - 1,
    )
    return [
        step(
            "Weighted sum",
            "The output of the head for each query is the sum of the values, weighted by "
            "attention.",
            "c_t = Σ_s a_ts v_s",
            plain_class(kernel).forward,
            tables.table("context", inside.context, at.queries, Axis()),
        ),
        step(
            "Output projection",
            f"The outputs of {at.attention.num_heads} heads are concatenated, and one matrix "
            "projects them to the model dimension.",
            "out = [c¹ … cᴴ] W_O + b_O",
            MultiHeadAttention.forward,
            tables.table("heads", merged, at.queries, heads),
            tables.table("out", trace.output_of(output, at.call)[0], at.queries, Axis()),
        ),
    ]
