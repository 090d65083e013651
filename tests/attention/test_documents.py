"""Sequences of several documents: splitting, joining, and the mask between documents."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from headway.attention import Documents, Mask, MultiHeadAttention, ScaledDot
from headway.transforms import fast
from headway.transforms.fast.dot import FusedDot
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
def test_joining_reverses_splitting(lengths):
    documents = Documents(lengths)
    total = sum(lengths[0])
    x = torch.randn(len(lengths), 2, total, 3)
    assert torch.equal(documents.apart.join(documents.apart.split(x)), x)
    assert documents.positions.tolist() == [[i for n in row for i in range(n)] for row in lengths]
    assert documents.longest == max(max(row) for row in lengths)
    starts = [
        [i for i in range(1, total) if positions[i] == 0] for positions in documents.positions
    ]
    for numbers, borders in zip(documents.numbers, starts, strict=True):
        assert (numbers.diff().nonzero().flatten() + 1).tolist() == borders


@given(packed_lengths())
def test_documents_are_padded_by_less_than_half(lengths):
    for group in Documents(lengths).apart.groups:
        longest = int(group.lengths.max())
        assert group.tokens.shape[1] == longest
        assert longest < 2 * int(group.lengths.min()) or longest == 1


@given(packed_lengths())
def test_splitting_into_documents_equals_the_dense_mask(lengths):
    documents, total = Documents(lengths), sum(lengths[0])
    q, k, v = torch.randn(3, len(lengths), 2, total, 4)
    dense = ScaledDot()(q, k, v, Mask(causal=True, documents=documents))
    groups = documents.apart
    parts = zip(*(groups.split(x) for x in (q, k, v)), strict=True)
    context = groups.join([FusedDot()(*part, Mask(causal=True)) for part in parts])
    assert_close(context, dense, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_applies_the_documents_of_a_mask(name):
    documents = Documents([[3, 1, 5], [9], [1, 8]])
    kernel = KERNELS[name](2, 4, 4)
    q, k, v = torch.randn(3, 3, 2, 9, 4)
    groups = documents.apart
    parts = zip(*(groups.split(x) for x in (q, k, v)), strict=True)
    expected = groups.join([kernel(*part, Mask(causal=True)) for part in parts])
    masked = kernel(q, k, v, Mask(causal=True, documents=documents))
    assert_close(masked, expected, rtol=0, atol=1e-5)
    weights = kernel.weights(q, k, Mask(causal=True, documents=documents))
    assert_close(weights @ v, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lengths", [[[2, 3], [4]], [[2, 0]], [[3, -1], [2]]])
def test_lengths_that_do_not_fill_their_rows_are_refused(lengths):
    with pytest.raises(ValueError, match="every row"):
        Documents(lengths)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("transform", [lambda model: model, fast], ids=["plain", "fast"])
def test_documents_attend_to_themselves_only(transform, causal):
    attention, x = transform(MultiHeadAttention(6, 2)), torch.randn(1, 4, 6)
    documents = Documents([[1, 3]])
    packed = attention(x, x, Mask(causal=causal, documents=documents))
    alone = [attention(part, part, Mask(causal=causal)) for part in x.split([1, 3], dim=1)]
    assert_close(packed, torch.cat(alone, dim=1), rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="packed sequences have neither padding"):
        Mask(causal=True, documents=documents, past=torch.tensor([2]))
