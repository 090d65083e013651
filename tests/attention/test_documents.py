"""Rows that hold several documents: taken apart, put together, and masked."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from headway.attention import Documents, FusedDot, Mask, MultiHeadAttention, ScaledDot
from tests.fixtures.zoo import KERNELS


@st.composite
def packed_lengths(draw):
    total = draw(st.integers(1, 40))
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        cuts = draw(st.sets(st.integers(1, total - 1) if total > 1 else st.nothing()))
        borders = [0, *sorted(cuts), total]
        rows.append([b - a for a, b in itertools.pairwise(borders)])
    return rows


@given(packed_lengths())
def test_apart_and_together_again(lengths):
    documents = Documents(lengths)
    total = sum(lengths[0])
    x = torch.randn(len(lengths), 2, total, 3)
    assert torch.equal(documents.together(documents.apart(x)), x)
    assert documents.places.tolist() == [[i for n in row for i in range(n)] for row in lengths]
    assert documents.longest == max(max(row) for row in lengths)
    starts = [[i for i in range(1, total) if places[i] == 0] for places in documents.places]
    for numbers, borders in zip(documents.numbers, starts, strict=True):
        assert (numbers.diff().nonzero().flatten() + 1).tolist() == borders


@given(packed_lengths())
def test_documents_are_padded_by_less_than_half(lengths):
    for group in Documents(lengths).groups:
        longest = int(group.lengths.max())
        assert group.tokens.shape[1] == longest
        assert longest < 2 * int(group.lengths.min()) or longest == 1


@given(packed_lengths())
def test_taking_rows_apart_is_the_dense_mask(lengths):
    documents, total = Documents(lengths), sum(lengths[0])
    q, k, v = torch.randn(3, len(lengths), 2, total, 4)
    dense = ScaledDot()(q, k, v, Mask(causal=True, documents=documents))
    parts = zip(*(documents.apart(x) for x in (q, k, v)), strict=True)
    found = documents.together([FusedDot()(*part, Mask(causal=True)) for part in parts])
    assert_close(found, dense, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_heeds_documents_in_a_mask(name):
    documents = Documents([[3, 1, 5], [9], [1, 8]])
    kernel = KERNELS[name](2, 4, 4)
    q, k, v = torch.randn(3, 3, 2, 9, 4)
    parts = zip(*(documents.apart(x) for x in (q, k, v)), strict=True)
    apart = documents.together([kernel(*part, Mask(causal=True)) for part in parts])
    masked = kernel(q, k, v, Mask(causal=True, documents=documents))
    assert_close(masked, apart, rtol=0, atol=1e-5)
    weights = kernel.weights(q, k, Mask(causal=True, documents=documents))
    assert_close(weights @ v, apart, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lengths", [[[2, 3], [4]], [[2, 0]], [[3, -1], [2]]])
def test_lengths_that_do_not_fill_their_rows_are_refused(lengths):
    with pytest.raises(ValueError, match="every row"):
        Documents(lengths)


def test_documents_need_causal_self_attention():
    attention, x, documents = MultiHeadAttention(6, 2), torch.randn(1, 4, 6), Documents([[1, 3]])
    with pytest.raises(ValueError, match="causal self-attention"):
        attention(x, x, Mask(documents=documents))
    with pytest.raises(ValueError, match="causal self-attention"):
        attention(x, x.clone(), Mask(causal=True, documents=documents))
    with pytest.raises(ValueError, match="packed rows are full"):
        Mask(causal=True, documents=documents, past=torch.tensor([2]))
