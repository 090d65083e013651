"""The largest numbers of each row: of the vocabulary, the most probable tokens."""

from __future__ import annotations

import torch

from headway.shapes import Float, Int, Tensor

BLOCK = 64
"""Numbers in a block: of 32, 64 and 128 the fastest for rows of 8,000 to 50,000 numbers."""


def largest(
    x: Float[Tensor, "*N V"], count: int
) -> tuple[Float[Tensor, "*N C"], Int[Tensor, "*N C"]]:
    """Return the `count` largest numbers of each row and their positions, largest first.

    They are in the `count` blocks whose largest numbers are largest: on a CPU it is faster to find
    these blocks, as a maximum is faster than a top-k. What is beyond the last whole block is
    a candidate, too.
    """
    blocks = x.shape[-1] // BLOCK
    if x.device.type != "cpu" or blocks < 4 * count:
        values, positions = x.topk(count, dim=-1)
        return values, positions
    by_block = x[..., : blocks * BLOCK].view(*x.shape[:-1], blocks, BLOCK)
    rest = x[..., blocks * BLOCK :]
    chosen = by_block.amax(-1).topk(count, dim=-1, sorted=False).indices
    candidates = by_block.gather(-2, chosen[..., None].expand(*chosen.shape, BLOCK)).flatten(-2)
    values, at = torch.cat((candidates, rest), dim=-1).topk(count, dim=-1)
    starts = chosen.gather(-1, (at // BLOCK).clamp(max=count - 1)) * BLOCK
    in_rest = at >= count * BLOCK
    first_of_rest = (blocks - count) * BLOCK
    return values, torch.where(in_rest, at + first_of_rest, starts + at % BLOCK)
