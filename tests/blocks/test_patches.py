"""Patches, position encodings in two dimensions, and image embeddings."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.blocks import (
    ImageEmbedding,
    LearnedGrid,
    NoGrid,
    Patches,
    SinusoidalGrid,
    SinusoidalTable,
    patchify,
)


def test_the_lectures_image_of_100_by_100_is_25_tokens_of_400_numbers():
    image = torch.arange(10_000.0).view(1, 1, 100, 100)
    patches = patchify(image, 20, 20)
    assert patches.shape == (1, 25, 400)
    assert torch.equal(patches[0, 7].view(20, 20), image[0, 0, 20:40, 40:60])


def test_patches_are_a_convolution_with_the_patch_as_kernel_and_stride():
    images = torch.randn(2, 3, 11, 17)  # the remaining 1 row and 2 columns fill no patch
    module = Patches(3, 5, 3, 7)
    module.init_weights()
    with torch.no_grad():
        module.project.bias.normal_()
    kernel = module.project.weight.view(7, 3, 5, 3)
    convolved = F.conv2d(images, kernel, module.project.bias, stride=(5, 3))
    assert convolved.shape == (2, 7, 2, 5) and module.grid(11, 17) == (2, 5)
    assert_close(module(images), convolved.flatten(2).transpose(1, 2), rtol=0, atol=1e-5)


def test_an_image_smaller_than_a_patch_is_refused_with_its_size():
    with pytest.raises(ValueError, match="4 x 9 pixels is smaller than a patch of 5 x 3"):
        patchify(torch.zeros(1, 1, 4, 9), 5, 3)


def test_initial_tokens_of_pixels_of_variance_1_have_variance_1():
    module = Patches(3, 8, 8, 64)
    module.init_weights()
    tokens = module(torch.randn(8, 3, 32, 32))
    assert tokens.var().item() == pytest.approx(1, abs=0.1)


def test_principal_components_keep_the_largest_variance_and_are_not_trained():
    directions = torch.linalg.qr(torch.randn(12, 12))[0]
    scales = torch.tensor([9.0, 5.0, 3.0, *[0.1] * 9])
    sample = (torch.randn(5000, 12) * scales) @ directions.T + 4
    module = Patches(3, 2, 2, 3)
    explained = module.fix(sample)
    assert explained == pytest.approx((81 + 25 + 9) / (81 + 25 + 9 + 0.09), abs=1e-3)
    assert not any(p.requires_grad for p in module.parameters())
    tokens = module.project(sample)
    assert_close(tokens.mean(0), torch.zeros(3), rtol=0, atol=1e-3)
    assert tokens.square().mean().item() == pytest.approx(1, abs=1e-3)
    directions_of_rows = F.normalize(module.project.weight, dim=1)
    overlap = (directions_of_rows @ directions[:, :3]).abs()
    assert_close(overlap, torch.eye(3), rtol=0, atol=0.05)  # in order, the largest first


@pytest.mark.parametrize("dim", [13, 12])
def test_more_principal_components_than_exist_are_refused(dim):
    module = Patches(3, 2, 2, dim)
    with pytest.raises(ValueError, match="are equal" if dim == 12 else "model_dim=13"):
        module.fix(torch.ones(20, 12))


def test_learned_positions_of_the_trained_grid_are_added_unchanged():
    grid = LearnedGrid(2, 3, 5)
    torch.nn.init.normal_(grid.vectors)
    x = torch.randn(4, 6, 5)
    assert torch.equal(grid(x, 2, 3), x + grid.vectors)


def test_positions_of_another_grid_are_interpolated_row_by_row():
    grid = LearnedGrid(4, 6, 2)
    rows, columns = torch.arange(4.0), torch.arange(6.0)
    with torch.no_grad():  # the vector of a cell is its row and column
        grid.vectors.copy_(torch.cartesian_prod(rows, columns))
    finer = grid.of(8, 18).detach().view(8, 18, 2)
    # cell i of n is at (i + 1/2) / n; inside, bicubic interpolation nearly preserves straight lines
    down = (torch.arange(8) + 0.5) / 2 - 0.5
    across = (torch.arange(18) + 0.5) / 3 - 0.5
    inside = (slice(3, 5), slice(6, 12))
    assert_close(finer[..., 0][inside], down[3:5, None].expand(2, 6), rtol=0, atol=0.1)
    assert_close(finer[..., 1][inside], across[None, 6:12].expand(2, 6), rtol=0, atol=0.1)
    assert finer.requires_grad is False and grid.of(8, 18).requires_grad


def test_sinusoidal_positions_are_those_of_the_row_and_of_the_column():
    grid = SinusoidalGrid(8)(torch.zeros(1, 15, 8), 3, 5)[0].view(3, 5, 8)
    table = SinusoidalTable(4)(torch.arange(5)[None])[0]
    assert_close(grid[:, 2, :4], table[:3])
    assert_close(grid[1, :, 4:], table)
    with pytest.raises(ValueError, match="multiple of 4"):
        SinusoidalGrid(6)


def embedding(**changes):
    module = ImageEmbedding(Patches(1, 2, 2, 4), LearnedGrid(2, 3, 4), **changes)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


@torch.no_grad()
def test_class_token_and_registers_are_before_the_patches():
    module, images = embedding(registers=2), torch.randn(3, 1, 4, 6)
    tokens = module(images)
    assert module.num_prefix_tokens == 3 and tokens.shape == (3, 9, 4)
    assert torch.equal(tokens[1, :1], module.class_token + module.class_position)
    assert torch.equal(tokens[2, 1:3], module.registers)
    assert torch.equal(tokens[:, 3:], module.patches(images) + module.positions.vectors)


@torch.no_grad()
def test_masked_patches_are_replaced_by_the_mask_token_at_their_position():
    module, images = embedding(mask_token=True), torch.randn(2, 1, 4, 6)
    hidden = torch.zeros(2, 6, dtype=torch.bool)
    hidden[1, 4] = True
    plain, tokens = module(images), module(images, hidden)
    assert torch.equal(tokens[1, 5:6], module.mask_token + module.positions.vectors[4:5])
    same = torch.ones(2, 7, dtype=torch.bool)
    same[1, 5] = False
    assert torch.equal(plain[same], tokens[same])
    with pytest.raises(ValueError, match="need a mask token"):
        embedding()(images, hidden)


@torch.no_grad()
def test_without_a_class_token_there_are_only_patches():
    module = ImageEmbedding(Patches(1, 2, 2, 4), NoGrid(), class_token=False)
    images = torch.randn(2, 1, 4, 6)
    assert torch.equal(module(images), module.patches(images)) and module.num_prefix_tokens == 0
