"""Exercise: patch embedding."""

import torch

from headway.base.shapes import Tensor
from headway.blocks import patchify
from headway.exercises.contract import Case, Exercise, Mistake
from headway.exercises.inputs import normal


def _reference(images: Tensor, size: int, weight: Tensor, bias: Tensor) -> Tensor:
    return patchify(images, size, size) @ weight.T + bias


def _random(seed: int) -> tuple[Tensor, int, Tensor, Tensor]:
    return normal(seed, 2, 3, 4, 6), 2, normal(seed + 1, 5, 12), normal(seed + 2, 5)


IMAGE = torch.arange(16.0).view(1, 1, 4, 4)
FOUR = torch.tensor([[[0.0, 1, 4, 5], [2.0, 3, 6, 7], [8.0, 9, 12, 13], [10.0, 11, 14, 15]]])

EXERCISE = Exercise(
    name="patch-embedding",
    equation="""
token_p = W patch_p + b
An image is cut into squares of size x size pixels, row by row. The numbers of a patch are ordered
by channel, then row, then column.""",
    shapes=(
        "images: B C Y X; Y and X are multiples of size\nsize: side of a patch\n"
        "weight: D I with I = C size size\nbias: D\nresult: B P D with P = (Y / size) (X / size)"
    ),
    signature=(
        "def embed_patches(images: Tensor, size: int, weight: Tensor, bias: Tensor) -> Tensor:"
    ),
    body="""
batch, channels, y, x = images.shape
split = images.reshape(batch, channels, y // size, size, x // size, size)
patches = split.permute(0, 2, 4, 1, 3, 5)  # B rows columns C size size
return patches.reshape(batch, -1, channels * size * size) @ weight.T + bias""",
    hints=(
        "Split Y into (rows, size) and X into (columns, size) with one `reshape`.",
        "`permute` to: batch, row of patches, column of patches, channel, row, column.",
        "Only then flatten to B P I, and multiply with `weight.T`.",
    ),
    reference=_reference,
    cases=(
        Case(
            rung="worked example",
            arguments=(IMAGE, 2, torch.eye(4), torch.zeros(4)),
            expected=FOUR,
            why="a 4 x 4 image of the numbers 0 ... 15: the first patch is 0, 1, 4, 5",
        ),
        Case(
            rung="projection",
            arguments=(IMAGE, 4, torch.ones(1, 16), torch.ones(1)),
            expected=torch.tensor([[[121.0]]]),
            why="one patch, all weights 1: 0 + 1 + ... + 15 = 120, plus a bias of 1",
        ),
    ),
    random=_random,
    gradients=True,
    mistakes=(
        Mistake(
            "the image is reshaped to patches at once, which makes strips of pixels: split both "
            "axes, then permute",
            {".permute(0, 2, 4, 1, 3, 5)": ""},
        ),
        Mistake(
            "the patches are ordered column by column; they go row by row",
            {"0, 2, 4, 1, 3, 5": "0, 4, 2, 1, 3, 5"},
        ),
        Mistake(
            "rows and columns inside a patch are swapped", {"0, 2, 4, 1, 3, 5": "0, 2, 4, 1, 5, 3"}
        ),
        Mistake(
            "the channel is last inside a patch; it comes first",
            {"0, 2, 4, 1, 3, 5": "0, 2, 4, 3, 5, 1"},
        ),
        Mistake("the bias is not added", {" + bias": ""}),
        Mistake(
            "only the first channel is used",
            {"split = images": "split = images[:, :1].expand_as(images)"},
        ),
    ),
)
