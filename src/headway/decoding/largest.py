"""The largest numbers of each row: of the vocabulary, the most probable tokens."""

import torch

from headway.base.shapes import Float, Int, Tensor

BLOCK = 64
"""Numbers in a block: of 32, 64 and 128 the fastest for rows of 8,000 to 50,000 numbers."""


def largest(
    x: Float[Tensor, "*N V"], count: int
) -> tuple[Float[Tensor, "*N C"], Int[Tensor, "*N C"]]:
    """Return the `count` largest numbers of each row and their positions, largest first."""
    rows = x.reshape(-1, 1, x.shape[-1])
    values, positions = largest_sums(rows, x.new_zeros(len(rows), 1), count)
    return values.view(*x.shape[:-1], -1), positions.view(*x.shape[:-1], -1)


def largest_sums(
    x: Float[Tensor, "B W V"], offsets: Float[Tensor, "B W"], count: int
) -> tuple[Float[Tensor, "B C"], Int[Tensor, "B C"]]:
    """Return the `count` largest numbers of x[b] + offsets[b, :, None] for each b, largest first,
    and their positions w V + v.

    They are in the `count` blocks whose largest sums are largest: on a CPU it is faster to find
    these blocks, as a maximum is faster than a top-k. What is beyond the last whole block of a row
    is a candidate, too.
    """
    groups, width, vocabulary = x.shape
    blocks = vocabulary // BLOCK
    if x.device.type != "cpu" or width * blocks < 4 * count:
        values, positions = (x + offsets[..., None]).flatten(1).topk(count, dim=-1)
        return values, positions
    by_block = x[..., : blocks * BLOCK].view(groups, width, blocks, BLOCK)
    highest = (by_block.amax(-1) + offsets[..., None]).flatten(1)
    chosen = highest.topk(count, dim=-1, sorted=False).indices  # B C, w blocks + block
    row, block = chosen // blocks, chosen % blocks
    in_blocks = by_block[torch.arange(groups)[:, None], row, block]  # B C BLOCK
    in_blocks = in_blocks + offsets.gather(1, row)[..., None]
    rest = x[..., blocks * BLOCK :] + offsets[..., None]
    values, at = torch.cat((in_blocks.flatten(1), rest.flatten(1)), dim=-1).topk(count, dim=-1)
    starts = row * vocabulary + block * BLOCK
    within = starts.gather(1, (at // BLOCK).clamp(max=count - 1)) + at % BLOCK
    if not rest.shape[-1]:
        return values, within
    nth = at - count * BLOCK  # number of the candidate in the rest
    beyond = nth // rest.shape[-1] * vocabulary + blocks * BLOCK + nth % rest.shape[-1]
    return values, torch.where(nth < 0, within, beyond)
