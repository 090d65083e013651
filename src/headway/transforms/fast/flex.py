"""Dot-product kernel for long inputs on a GPU: the mask is a rule, never a matrix of scores.

torch's FlexAttention is imported where it is called: importing it or the compiler takes seconds.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, no_type_check

import torch

from headway.attention.kernel import Bias, Contexts, Keys, Queries, Values
from headway.attention.masks import Mask
from headway.base.shapes import Float, Tensor
from headway.transforms.fast.dot import FusedDot, fused_dot
from headway.transforms.fast.masks import hides_nothing
from headway.transforms.tracing import tracing

Attend = Callable[..., Any]  # torch's flex_attention, as written or compiled


class FlexDot(FusedDot):
    """softmax(Q K^T / sqrt(K) + bias) V by torch's FlexAttention, on CUDA.

    Blocks of keys that the mask hides from a whole block of queries are skipped, and no B H T S
    scores are made. Compiled at the first call, which takes seconds to minutes. K and Kv must be
    at least 16; the gradient of a bias is summed in no fixed order, so its last bits change from
    run to run. Dong et al. 2024, "Flex Attention".

    Everywhere else it is `FusedDot`: FlexAttention has no backward on a CPU or on mps.

    What was run: `flex_dot` against `ScaledDot` over all masks and biases of the tests, on a CPU
    without gradients and on a GPU with them. Its speed was not measured.
    """

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        if q.device.type != "cuda":
            return fused_dot(q, k, v, mask, bias)
        if tracing(q):  # the whole model
            from torch.nn.attention.flex_attention import flex_attention

            return flex_dot(q, k, v, mask, bias, flex_attention)
        return flex_dot(q, k, v, mask, bias, compiled())


def flex_dot(q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias, attend: Attend) -> Contexts:
    """Return the same by `attend`; a query without any key gets 0.

    The blocks to skip follow from the mask as a boolean T x S (times B where rows differ).
    """
    from torch.nn.attention.flex_attention import create_block_mask

    blocks = None
    if not hides_nothing(mask, q.shape[2]):
        by_row = (mask.keys, mask.past, mask.documents)
        rows = None if all(rule is None for rule in by_row) else len(q)
        rule = mask_rule(mask, q, k)
        blocks = create_block_mask(rule, rows, None, q.shape[2], k.shape[2], device=q.device)
    score = None if bias is None else score_rule(bias)
    grouped = q.shape[1] != k.shape[1]
    return attend(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=grouped)


def mask_rule(mask: Mask, q: Tensor, k: Tensor) -> Callable[..., Tensor]:
    """FlexAttention's mask_mod: one cell of `mask.dense`, (row, head, query, key) -> may attend.

    All masks are one rule, real keys from `least` to `most` places back, over other tensors:
    another mask is then no reason to compile again.
    """
    num_rows, num_queries, num_keys, device = len(q), q.shape[2], k.shape[2], q.device
    furthest = num_keys if mask.window is None else mask.window - 1
    least, most = torch.tensor([0 if mask.causal else -furthest, furthest], device=device).unbind()
    alike = torch.full((num_rows,), num_keys - num_queries, device=device)
    every = torch.ones(num_rows, num_keys, dtype=torch.bool, device=device)
    first = alike if mask.past is None else mask.past
    keys = every if mask.keys is None else mask.keys
    number = every if mask.documents is None else mask.documents.numbers

    @no_type_check  # torch counts a rule's arguments, so nothing may be wrapped around it
    def may_attend(b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        back = first[b] + t - s
        return (back >= least) & (back <= most) & keys[b, s] & (number[b, t] == number[b, s])

    return may_attend


def score_rule(bias: Float[Tensor, "#B #H T S"]) -> Callable[..., Tensor]:
    """FlexAttention's score_mod: adds the bias of a cell; one row or head of it serves all."""
    own_row, own_head = (size > 1 for size in bias.shape[:2])

    @no_type_check
    def with_bias(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return score + bias[b if own_row else b * 0, h if own_head else h * 0, t, s]

    return with_bias


@cache
def compiled() -> Attend:
    """`flex_attention`, compiled for up to 64 kinds of inputs: gradients or none, one row or more.

    At the 65th torch's error (that is `fullgraph`): it must not run uncompiled without a word.
    """
    from torch._dynamo import config
    from torch.nn.attention.flex_attention import flex_attention

    fast: Attend = torch.compile(flex_attention, fullgraph=True)

    def attend(*inputs: Any, **rules: Any) -> Any:
        with config.patch(recompile_limit=64):
            return fast(*inputs, **rules)

    return attend
