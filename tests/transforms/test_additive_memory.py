"""Additive attention computes its tanh layer in chunks: forward, backward and while recorded."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headway.attention import Mask
from headway.transforms.fast import additive
from headway.transforms.fast.additive import FastAdditive

B, T, S, H, K, A = 2, 40, 50, 3, 4, 8
SCORES, LAYER = B * H * T * S, B * H * T * S * A


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that an operator returned, views included."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [x.numel() for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return out


def largest_of_a_training_step() -> int:
    kernel = FastAdditive(H, K, K, A)
    q, k, v = (torch.randn(B, H, n, K, requires_grad=True) for n in (T, S, S))
    with Largest() as largest:
        kernel(q, k, v, Mask(causal=True)).sum().backward()
    assert all(x.grad is not None for x in (q, k, v, *kernel.parameters()))
    return largest.numbers


@pytest.mark.parametrize("chunk", [1, 500, SCORES])
def test_the_tanh_layer_is_never_stored_as_a_whole(monkeypatch, chunk):
    """The scores are the largest tensor, however small the chunks are."""
    monkeypatch.setattr(additive, "CHUNK", chunk)
    assert largest_of_a_training_step() == SCORES


def test_the_tanh_layer_of_a_whole_head_is_detected_if_there_is_one_chunk(monkeypatch):
    monkeypatch.setattr(additive, "CHUNK", LAYER)
    assert largest_of_a_training_step() >= LAYER // H > SCORES


def test_recording_its_weights_needs_no_larger_tensor(monkeypatch):
    monkeypatch.setattr(additive, "CHUNK", 500)
    q, k = torch.randn(B, H, T, K), torch.randn(B, H, S, K)
    with torch.no_grad(), Largest() as largest:
        FastAdditive(H, K, K, A).weights(q, k, Mask())
    assert largest.numbers == SCORES
