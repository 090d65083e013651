"""GPTQ: round the weights so that a layer's outputs for typical inputs change least.

    minimise  sum over inputs x of |W x - W' x|^2,   H = sum of x x^T,   U^T U = H^-1,  U upper

Column i is rounded to the nearest code. The columns that are not rounded yet compensate its error:

    e = (W[:, i] - W'[:, i]) / U[i, i],    W[:, j] -= e U[i, j]  for j > i

Frantar et al. 2023, section 3.
"""

import torch

from headway.base.shapes import Float, Tensor
from headway.transforms.quantize.numbers import int4_codes, int4_grid, paired

DAMPING = 0.01
"""Added to the diagonal of H, as a fraction of its mean: inputs may be linearly dependent."""
WIDTHS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Widths of the grids that are tried, as fractions of the range of the weights."""


@torch.no_grad()
def calibrated_int4(
    weight: Float[Tensor, "O I"], product: Float[Tensor, "I I"], group: int
) -> dict[str, Tensor]:
    """Return the int4 numbers of a matrix, given H of its inputs."""
    upper = _inverse_root(product)
    rest = weight.clone()
    codes, scales, centres = [], [], []
    for start in range(0, weight.shape[1], group):
        block = rest[:, start : start + group].clone()
        scale, centre = _best_grid(block, group, product.diagonal()[start : start + group])
        errors = torch.empty_like(block)
        for i in range(block.shape[1]):
            root = upper[start + i, start : start + group]
            code = int4_codes(block[:, None, i : i + 1], scale, centre)[:, 0, 0]
            rounded = (code.float() - 8) * scale[:, 0].float() + centre[:, 0].float()
            errors[:, i] = (block[:, i] - rounded) / root[i]
            block[:, i + 1 :] -= errors[:, i, None] * root[i + 1 :]
            codes.append(code)
        rest[:, start + group :] -= errors @ upper[start : start + group, start + group :]
        scales.append(scale)
        centres.append(centre)
    codes += [torch.zeros_like(codes[0])] * (-weight.shape[1] % group)
    return {
        "weight_int4": paired(torch.stack(codes, 1)),
        "weight_scale": torch.cat(scales, 1),
        "weight_centre": torch.cat(centres, 1),
    }


def _best_grid(
    block: Float[Tensor, "O g"], group: int, importance: Float[Tensor, " g"]
) -> tuple[Tensor, Tensor]:
    """Return scale and centre (O 1) of each row's group with the least rounding error.

    Narrower grids round large weights worse and small ones better. The squared errors are weighted
    by the diagonal of H: an input that is often 0 matters little.
    """
    best_error = torch.full((len(block), 1), torch.inf)
    best = int4_grid(block, group)
    for fraction in WIDTHS:
        middle = (block.amax(1, keepdim=True) + block.amin(1, keepdim=True)) / 2
        scale, centre = int4_grid(middle + (block - middle) * fraction, group)
        steps = int4_codes(block[:, None], scale, centre)[:, 0].float() - 8
        errors = (steps * scale.float() + centre.float() - block).square() @ importance
        is_better = errors[:, None] < best_error
        best_error = torch.where(is_better, errors[:, None], best_error)
        best = (torch.where(is_better, scale, best[0]), torch.where(is_better, centre, best[1]))
    return best


def _inverse_root(product: Float[Tensor, "I I"]) -> Float[Tensor, "I I"]:
    """Return the upper triangular U with U^T U = (H + damping)^-1, in float32."""
    damped = product.double()
    unused = damped.diagonal() == 0  # inputs that are always 0: any rounding will do
    damped.diagonal().add_(DAMPING * damped.diagonal().mean()).masked_fill_(unused, 1.0)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    upper: Tensor = torch.linalg.cholesky(inverse, upper=True)
    return upper.float()
