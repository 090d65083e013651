"""A linear layer of one vector with its norm, activation and residual connection, as one kernel.

A step of decoding of one text multiplies each matrix by one vector: it is bound by reading the
matrices, and by launching kernels. A kernel here reads the matrix once at nearly the bandwidth of
the memory, and does at the same time what would take two or three kernels more.
"""

import triton
import triton.language as tl
from torch import nn
from triton.language.extra import cuda

from headway.base.shapes import Float, Tensor
from headway.blocks.norms import LayerNorm, RMSNorm
from headway.transforms.kernels import Activation, starts_early

LONGEST = 2**14
"""Inputs of the widest layer: a row of the matrix must fit into the registers of a program."""


def linear_of_vector(
    x: Float[Tensor, "1 1 I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"] | None,
    *,
    norm: nn.Module | None = None,
    activation: Activation | None = None,
    residual: Float[Tensor, "1 1 O"] | None = None,
) -> Float[Tensor, "1 1 O"]:
    """Return residual + activation(norm(x) W^T + b), computed in float32.

    norm: a LayerNorm or an RMSNorm. The matrix may have another dtype than x; all other tensors
    have that of x. Without gradients.
    """
    outputs, inputs = weight.shape
    y = x.new_empty(1, 1, outputs)
    block, num_warps = _block(outputs, inputs)
    early = starts_early(x.device)
    # a pointer that is not read stands for what is not there
    _linear_of_vector[(triton.cdiv(outputs, block),)](
        x,
        weight,
        y if bias is None else bias,
        y if norm is None else norm.gain,
        norm.shift if isinstance(norm, LayerNorm) else y,
        y if residual is None else residual,
        y,
        eps=0.0 if norm is None else norm.eps,
        inputs=inputs,
        outputs=outputs,
        norm=_norm_name(norm),
        activation=activation or "none",
        has_bias=bias is not None,
        has_residual=residual is not None,
        block=block,
        width=triton.next_power_of_2(inputs),
        early=early,
        num_warps=num_warps,
        launch_pdl=early,
    )
    return y


def _norm_name(norm: nn.Module | None) -> str:
    if norm is None:
        return "none"
    return "rms" if isinstance(norm, RMSNorm) else "layer"


def _block(outputs: int, inputs: int) -> tuple[int, int]:
    """Return the number of outputs of a program and its number of warps: the fastest on an H200 for
    the shapes of GPT-2 small and XL."""
    if inputs > 8192:
        return 1, 8
    if inputs <= 2048 and outputs >= 2048:
        return 4, 4
    return 2, 8


@triton.jit  # type: ignore[untyped-decorator]
def _linear_of_vector(  # type: ignore[no-untyped-def]
    x,
    weight,
    bias,
    gain,
    shift,
    residual,
    y,
    eps,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    norm: tl.constexpr,
    activation: tl.constexpr,
    has_bias: tl.constexpr,
    has_residual: tl.constexpr,
    block: tl.constexpr,
    width: tl.constexpr,
    early: tl.constexpr,
):
    """One program for `block` outputs. early: what is no result of the kernel before is read while
    that one still runs."""
    if early:
        cuda.gdc_launch_dependents()
    n = tl.program_id(0) * block + tl.arange(0, block)
    k = tl.arange(0, width)
    is_input, is_output = k < inputs, n < outputs
    at = n[:, None] * inputs + k[None, :]
    w = tl.load(weight + at, mask=is_output[:, None] & is_input[None, :], other=0.0).to(tl.float32)
    if norm != "none":
        g = tl.load(gain + k, mask=is_input, other=0.0).to(tl.float32)
    if norm == "layer":
        s = tl.load(shift + k, mask=is_input, other=0.0).to(tl.float32)
    if has_bias:
        b = tl.load(bias + n, mask=is_output, other=0.0).to(tl.float32)
    if early:
        cuda.gdc_wait()
    v = tl.load(x + k, mask=is_input, other=0.0).to(tl.float32)
    if norm == "layer":
        v = tl.where(is_input, v - tl.sum(v, 0) / inputs, 0.0)
        v = v * tl.rsqrt(tl.sum(v * v, 0) / inputs + eps) * g + s
    elif norm == "rms":
        v = v * tl.rsqrt(tl.sum(v * v, 0) / inputs + eps) * g
    out = tl.sum(w * v[None, :], 1)
    if has_bias:
        out += b
    if activation == "relu":
        out = tl.maximum(out, 0.0)
    elif activation == "gelu":
        out = 0.5 * out * (1 + tl.erf(out * 0.7071067811865476))
    elif activation == "gelu-tanh":  # (1 + tanh(a)) / 2 = sigmoid(2 a)
        out *= tl.sigmoid(1.5957691216057308 * (out + 0.044715 * out * out * out))
    elif activation == "silu":
        out *= tl.sigmoid(out)
    if has_residual:
        out += tl.load(residual + n, mask=is_output, other=0.0).to(tl.float32)
    tl.store(y + n, out.to(y.dtype.element_ty), mask=is_output)
