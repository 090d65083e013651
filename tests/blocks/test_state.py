"""Sequences share the keys of their sources, whatever their order and number."""

import pytest
import torch
from torch.testing import assert_close

from headway.attention import KeyValues, Mask, MultiHeadAttention, Sharing
from headway.blocks import Memory
from headway.transforms.fast.table import fast

M, S, D, T = 3, 5, 12, 2
CPU = torch.device("cpu")


def memory_of(lengths: list[int]) -> Memory:
    """Return a memory of one layer, of sources with these numbers of tokens."""
    size = len(lengths), 2, max(lengths), 4
    keys = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    layers = [KeyValues(torch.randn(size), torch.randn(size))]
    return Memory(layers, None if bool(keys.all()) else keys, list(range(len(lengths))))


def values(memory: Memory) -> list[torch.Tensor]:
    """Return the values that each sequence may attend to."""
    keys = memory.mask.keys
    v = memory.layers[0].v
    return [v[row] if keys is None else v[row][:, keys[row]] for row in memory.rows]


@pytest.mark.parametrize("is_fast", [False, True])
@pytest.mark.parametrize(
    "rows", [[0, 1, 2], [0, 0, 1, 1, 2, 2], [1, 0, 2], [2, 0, 2, 1, 2], [0, 1, 1, 1, 1, 2]]
)
def test_sequences_that_share_keys_get_the_contexts_of_copies(rows, is_fast):
    torch.manual_seed(0)
    attention = MultiHeadAttention(D, 3).double()
    attention = fast(attention) if is_fast else attention
    x, source = torch.randn(len(rows), T, D).double(), torch.randn(M, S, D).double()
    keys = torch.arange(S) < torch.tensor([5, 2, 4])[:, None]
    sharing = Sharing.of(rows, M, CPU)
    shared = attention(x, attention.keys_values(source), Mask(keys=keys, sharing=sharing))
    assert_close(shared, attention(x, source[rows], Mask(keys=keys[rows])))


def test_a_new_order_moves_no_keys_unless_a_source_is_dropped():
    memory = memory_of([4, 2, 3])
    before, layers = values(memory), memory.layers
    for rows in ([0, 0, 1, 2, 2, 2], [5, 2, 0, 3], [3, 2, 1, 0]):
        memory.arrange(rows)
        before = [before[row] for row in rows]
        assert memory.layers is layers
        for found, expected in zip(values(memory), before, strict=True):
            assert torch.equal(found, expected)
    memory.arrange([3, 0])
    assert len(memory.layers[0].k) == len(set(memory.rows))
    for found, expected in zip(values(memory), [before[3], before[0]], strict=True):
        assert torch.equal(found, expected)


def test_memories_that_join_have_each_source_once_without_the_padding_of_dropped_ones():
    mine, theirs = memory_of([3, 9, 2]), memory_of([4])
    mine.arrange([0, 0, 2, 2])
    theirs.arrange([0, 0])
    expected = [*values(mine), *values(theirs)]
    mine.join(theirs)
    assert mine.layers[0].k.shape == (3, 2, 4, 4) and mine.rows == [0, 0, 1, 1, 2, 2]
    assert mine.sharing.sequences is None
    for found, one in zip(values(mine), expected, strict=True):
        assert torch.equal(found, one)
