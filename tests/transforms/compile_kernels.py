"""Compiles every kernel in Triton for a GPU of the Hopper generation, without a GPU.

Triton's interpreter accepts what its compiler refuses, such as a variable of a loop that changes
its type. Run as a program of its own: in the tests the interpreter is switched on.
"""

from __future__ import annotations

from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from headway.transforms.kernels import linear, loss, new_token, norms, one_vector

HOPPER = GPUTarget("cuda", 90, 32)
FLOATS, INTS = ("*fp32", "*bf16"), {"targets": "*i64", "past": "*i64"}


def compile_for_hopper(kernel: Any, floats: str, constants: dict[str, Any]) -> None:
    """floats: the type of the tensors of numbers. constants: the arguments that are known."""
    scalars = {"eps": "fp32", "scale": "fp32", "smoothing": "fp32"}
    counts = ("num_rows", "rows", "steps", "count", "capacity", "q_stride", "k_stride", "v_stride")
    types = {**INTS, **scalars, **dict.fromkeys(counts, "i32")}
    names = kernel.arg_names
    signature = {
        name: "constexpr" if name in constants else types.get(name, floats) for name in names
    }
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if signature[n][0] == "*"
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    triton.compile(source, target=HOPPER, options={"num_warps": 4})


def main() -> None:
    for floats in FLOATS:
        for early in (False, True):
            for norm, activation in (("layer", "gelu"), ("rms", "silu"), ("none", "gelu-tanh")):
                sizes = {"inputs": 96, "outputs": 50, "block": 2, "width": 128}
                kind = {"norm": norm, "activation": activation, "early": early}
                parts = {"has_bias": early, "has_residual": early}
                compile_for_hopper(one_vector._linear_of_vector, floats, sizes | kind | parts)
            sizes = {"heads": 6, "groups": 2, "size": 48, "value_size": 64, "block": 64}
            widths = {"width": 64, "value_width": 64, "early": early}
            compile_for_hopper(new_token._attend_new_token, floats, sizes | widths)
        for flag in (False, True):
            row = {"size": 96, "width": 128, "is_rms": flag, "has_change": flag}
            compile_for_hopper(norms._norm, floats, row)
            compile_for_hopper(norms._norm_backward, floats, row | {"is_kept": not flag})
            sizes = {"vocabulary": 50, "width": 64, "block": 32}
            parts = {"has_weights": flag, "wants_grad": flag}
            compile_for_hopper(loss._loss_of_row, floats, sizes | parts)
        compile_for_hopper(norms._add, floats, {"block": 1024})
        part = {"size": 96, "rows": 16, "columns": 128}
        for activation in ("none", "relu", "gelu", "gelu-tanh", "silu"):
            known = part | {"activation": activation}
            compile_for_hopper(linear._sum_columns, floats, known)


if __name__ == "__main__":
    main()
