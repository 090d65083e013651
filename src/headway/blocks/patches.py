"""Patches: token_p = W patch_p + b, where patch_p is a rectangle of the image.

An image of Y x X pixels is cut into patches that do not overlap. The pixels of a patch, written as
one vector, are projected to the model width: to the Transformer a patch is what a word is in text.

>>> import torch
>>> from headway.blocks import patchify
>>> image = torch.arange(16).view(1, 1, 4, 4)  # B C Y X
>>> image[0, 0]
tensor([[ 0,  1,  2,  3],
        [ 4,  5,  6,  7],
        [ 8,  9, 10, 11],
        [12, 13, 14, 15]])
>>> patchify(image.float(), 2, 2)[0].int()  # four patches, row by row, of 2 x 2 pixels
tensor([[ 0,  1,  4,  5],
        [ 2,  3,  6,  7],
        [ 8,  9, 12, 13],
        [10, 11, 14, 15]], dtype=torch.int32)
"""

import math

import torch
from torch import nn

from headway.base.shapes import Float, Tensor


def patchify(images: Float[Tensor, "B C Y X"], height: int, width: int) -> Float[Tensor, "B P I"]:
    """Return the patches of height x width pixels, row by row, with I = C height width numbers.

    The numbers of a patch are ordered by channel, then row, then column. A 100 x 100 image of one
    channel in 20 x 20 patches is 25 vectors of 400 numbers. Pixels at the right and bottom that
    fill no patch are ignored, as a convolution without padding does. The image may be a photograph
    or any other grid of numbers, such as the spectrogram of a sound. Raises ValueError if the image
    is smaller than a patch.
    """
    batch, channels, y, x = images.shape
    rows, columns = y // height, x // width
    if not rows or not columns:
        raise ValueError(
            f"an image of {y} x {x} pixels is smaller than a patch of {height} x {width}"
        )
    used = images[..., : rows * height, : columns * width]
    split = used.reshape(batch, channels, rows, height, columns, width)
    patches = split.permute(0, 2, 4, 1, 3, 5)  # B C r h c w -> B r c C h w
    return patches.reshape(batch, rows * columns, channels * height * width)


class Patches(nn.Module):
    """W patch_p + b for every patch p: images become tokens. Dosovitskiy et al. 2021, equation 1.

    It equals a convolution whose kernel size and stride are the patch size. bias: whether there is
    a b; CLIP has none.
    """

    def __init__(
        self, channels: int, height: int, width: int, model_dim: int, bias: bool = True
    ) -> None:
        super().__init__()
        self.height, self.width = height, width
        self.project = nn.Linear(channels * height * width, model_dim, bias=bias)

    def init_weights(self) -> None:
        """Initialise W with N(0, 1/I): pixels of variance 1 become tokens of variance 1."""
        nn.init.normal_(self.project.weight, std=self.project.in_features**-0.5)
        if self.project.bias is not None:
            nn.init.zeros_(self.project.bias)

    def grid(self, y: int, x: int) -> tuple[int, int]:
        """Return the numbers of rows and columns of patches of an image of y x x pixels."""
        return y // self.height, x // self.width

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B P D"]:
        return self.project(patchify(images, self.height, self.width))

    @torch.no_grad()
    def fix(self, sample: Float[Tensor, "N I"]) -> float:
        """Replace the projection by principal component analysis and freeze it, in place.

        token = s W (patch - mean): the rows of W are the D directions of largest variance of the
        patches in `sample`, and s makes the mean square of the tokens 1. Returns the fraction of
        the variance that the D components explain. Raises ValueError if a patch has fewer than D
        numbers, if all patches of the sample are equal, or if the projection has no bias.
        """
        if self.project.bias is None:
            raise ValueError("principal components subtract the mean patch, which needs a bias")
        model_dim, inputs = self.project.weight.shape
        if model_dim > inputs:
            raise ValueError(
                f"{model_dim=} principal components need patches of at least as many numbers, but "
                f"these have {inputs}: use larger patches or a smaller model_dim"
            )
        exact = sample.double()
        mean = exact.mean(0)
        covariance = torch.cov((exact - mean).T, correction=0)
        variances, directions = torch.linalg.eigh(covariance)  # the smallest first
        explained, total = float(variances[-model_dim:].sum()), float(variances.sum())
        if not explained > 0:
            raise ValueError(
                f"all {len(sample)} patches of the sample are equal, so they have no principal "
                "components: use images that differ"
            )
        weight = directions[:, -model_dim:].T.flip(0) * math.sqrt(model_dim / explained)
        self.project.weight.copy_(weight)
        self.project.bias.copy_(-weight @ mean)
        self.project.requires_grad_(False)
        return explained / total
