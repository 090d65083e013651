"""Images cut into patches, and patches as tokens (lecture 2.7)."""

from __future__ import annotations

import math

import torch
from torch import nn

from headway.shapes import Float, Tensor


def patchify(images: Float[Tensor, "B C Y X"], height: int, width: int) -> Float[Tensor, "B P I"]:
    """The patches of height x width pixels, row by row, each as I = C x height x width numbers.

    Inside a patch channel comes before row before column. A 100 x 100 image of one channel in
    20 x 20 patches is 25 rows of 400 numbers. What is left at the right and at the bottom and fills
    no patch is not looked at, as a convolution would not. ValueError where no patch fits. Any
    picture of numbers will do: photographs, or the spectrogram of a sound.
    """
    batch, channels, y, x = images.shape
    rows, columns = y // height, x // width
    if not rows or not columns:
        raise ValueError(f"an image of {y} x {x} holds no patch of {height} x {width}")
    used = images[..., : rows * height, : columns * width]
    split = used.reshape(batch, channels, rows, height, columns, width)
    patches = split.permute(0, 2, 4, 1, 3, 5)  # B C r h c w -> B r c C h w
    return patches.reshape(batch, rows * columns, channels * height * width)


class Patches(nn.Module):
    """x_p W^T + b for every patch p: images -> tokens. Dosovitskiy et al. 2021, equation 1.

    The same as a convolution with the patch as kernel and stride.
    """

    def __init__(self, channels: int, height: int, width: int, model_dim: int) -> None:
        super().__init__()
        self.height, self.width = height, width
        self.project = nn.Linear(channels * height * width, model_dim)

    def init_weights(self) -> None:
        """N(0, 1/I): pixels of variance 1 become tokens of variance 1."""
        nn.init.normal_(self.project.weight, std=self.project.in_features**-0.5)
        nn.init.zeros_(self.project.bias)

    def grid(self, y: int, x: int) -> tuple[int, int]:
        """(rows, columns) of patches in an image of that size."""
        return y // self.height, x // self.width

    def forward(self, images: Float[Tensor, "B C Y X"]) -> Float[Tensor, "B P D"]:
        tokens: Tensor = self.project(patchify(images, self.height, self.width))
        return tokens

    @torch.no_grad()
    def fix(self, sample: Float[Tensor, "N I"]) -> float:
        """Make the projection that of principal components, and train it no more (in place).

        y = s W (x - mean): the rows of W are the D directions in which the patches of `sample` vary
        most, s makes y's mean square 1. Returns the share of the variance that is kept. ValueError
        for fewer than D numbers a patch, or a sample of patches that are all alike.
        """
        model_dim, inputs = self.project.weight.shape
        if model_dim > inputs:
            raise ValueError(f"{model_dim=} principal components of patches of {inputs} numbers")
        exact = sample.double()
        mean = exact.mean(0)
        covariance = torch.cov((exact - mean).T, correction=0)
        variances, directions = torch.linalg.eigh(covariance)  # the smallest first
        kept, total = float(variances[-model_dim:].sum()), float(variances.sum())
        if not kept > 0:
            raise ValueError("all patches are alike: there is no direction in which they vary")
        weight = directions[:, -model_dim:].T.flip(0) * math.sqrt(model_dim / kept)
        self.project.weight.copy_(weight)
        self.project.bias.copy_(-weight @ mean)
        self.project.requires_grad_(False)
        return kept / total
