"""The stream of batches: orders, resuming, and processes that share it."""

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.base.ranks import Ranks
from headway.base.shapes import Int, Tensor
from headway.data.mixing import Mixture
from headway.data.stream import Batch, Batches, ByLength, ByTokens, Order, Shuffled

LENGTHS = np.arange(53) % 7 + 1


@dataclass(frozen=True)
class Numbers(Batch):
    values: Int[Tensor, " B"]
    indices: tuple[int, ...] = ()


def numbers(indices, epoch):
    return Numbers(torch.tensor(indices), (epoch, *map(int, indices)))


class Epochs(Order):
    """Epochs of these numbers of batches, by turns; the items are numbered within an epoch."""

    batch_size, examples_per_epoch = 1, 4

    def __init__(self, counts):
        self.counts = counts

    def __call__(self, epoch):
        return [[number] for number in range(self.counts[epoch % len(self.counts)])]


def read(batches, count, epoch=0, position=0):
    return [
        (after_epoch, after, batch.indices)
        for after_epoch, after, batch in islice(batches.stream(epoch, position), count)
    ]


def orders(seed=5):
    mixture = Mixture(sizes=(40, 13), quotas=(13, 40), seed=seed)
    return {
        "shuffled": Shuffled(len(LENGTHS), 4, seed),
        "by length": ByLength(LENGTHS.tolist(), 4, seed),
        "by tokens": ByTokens(LENGTHS, LENGTHS[::-1], 32, seed),
        "mixed": ByTokens(LENGTHS, LENGTHS[::-1], 32, seed, mixture=mixture),
    }


@pytest.mark.parametrize("name", orders())
def test_an_epoch_has_every_example_once_in_an_order_of_its_seed_and_number(name):
    def flat(order, epoch):
        return [batch.tolist() for batch in order(epoch)]

    order = orders()[name]
    for epoch in range(3):
        expected = range(53) if name != "mixed" else sorted(order.mixture.epoch(epoch).tolist())
        assert sorted(np.concatenate(order(epoch)).tolist()) == list(expected)
    assert flat(order, 0) != flat(order, 1) and flat(order, 1) == flat(orders()[name], 1)
    assert flat(order, 1) != flat(orders(seed=6)[name], 1)
    assert order.examples_per_epoch == 53 and order.batches_per_epoch == len(order(0))


def test_sequences_of_a_batch_have_similar_lengths():
    spread = [np.ptp(LENGTHS[batch]) for batch in ByLength(LENGTHS, 4, seed=5)(0)]
    assert len(spread) == 14 and sum(spread) <= 14


@dataclass(frozen=True)
class RowBatch(Batch):
    rows: tuple[int, ...]


def rows(item, epoch):
    return RowBatch(tuple(item))


class Rows(Order):
    """Batches of these sizes in each epoch, of consecutive numbers."""

    batch_size, examples_per_epoch = 1, 4

    def __init__(self, sizes):
        self.sizes = sizes

    def __call__(self, epoch):
        ends = np.cumsum(self.sizes)
        starts = epoch * ends[-1] + ends - self.sizes
        return [range(start, start + size) for start, size in zip(starts, self.sizes, strict=True)]


SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@given(SIZES, st.integers(1, 5), st.integers(1, 5), st.integers(1, 12))
def test_processes_share_each_batch_and_go_on_in_another_number(sizes, first, second, steps):
    batches = Batches(Rows(sizes), rows)
    whole = [batch.rows for *_, batch in islice(batches.stream(0, 0), 2 * steps)]

    def shared(size, epoch=0, position=0):
        """Return the rows of each batch, put together from its parts, and the position after."""
        parts = [
            list(islice(batches.shared(Ranks(rank, size), epoch, position), steps))
            for rank in range(size)
        ]
        ends = {part[-1][:2] for part in parts}
        assert len(ends) == 1  # every process is at the same position
        joined = []
        for of_step in zip(*parts, strict=True):
            own = [() if batch is None else batch.rows for *_, batch in of_step]
            rows_of_step = [None] * sum(map(len, own))
            for rank, numbers_of_rank in enumerate(own):
                rows_of_step[rank::size] = numbers_of_rank
            joined.append(tuple(rows_of_step))
        return joined, ends

    before, ends = shared(first)
    assert before == whole[:steps]
    after, _ = shared(second, *ends.pop())
    assert after == whole[steps:]


def test_a_batch_of_which_no_process_can_learn_is_left_out_by_all():
    def make(item, epoch):
        kept = [row for row in item if row % 2]
        return RowBatch(tuple(kept)) if kept else None

    batches = Batches(Rows([1, 2, 3]), make)  # 0 | 1 2 | 3 4 5
    for rank, expected in enumerate([[(1,), (3, 5)], [None, None]]):
        read_by_rank = [batch for *_, batch in islice(batches.shared(Ranks(rank, 2), 0, 0), 2)]
        assert [None if b is None else b.rows for b in read_by_rank] == expected


def test_one_process_counts_epochs_and_batches():
    stream = read(Batches(Epochs([2, 3]), numbers), 6)
    assert [place[:2] for place in stream] == [(0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]


def test_items_with_nothing_to_learn_are_left_out():
    def odd(item, epoch):
        return numbers(item, epoch) if item[0] % 2 else None

    assert read(Batches(Epochs([4]), odd), 3) == [(0, 2, (0, 1)), (1, 0, (0, 3)), (1, 2, (1, 1))]


def test_a_batch_moves_all_its_tensors_and_keeps_the_rest():
    @dataclass(frozen=True)
    class Nested(Batch):
        inner: Numbers
        views: tuple[Tensor, ...]
        missing: Tensor | None
        lengths: tuple[tuple[int, ...], ...] = ((1, 2),)

    batch = Nested(numbers([3, 4], 0), (torch.ones(2), torch.ones(3)), None).to("meta")
    assert batch.inner.values.device.type == batch.views[1].device.type == "meta"
    assert batch.missing is None and batch.inner.indices == (0, 3, 4) and batch.lengths == ((1, 2),)
