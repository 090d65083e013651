"""Packed sequences of running text."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from headway.base.errors import DataError, UsageError
from headway.data.padding import IGNORED
from headway.data.stream import Batches
from headway.data.text_corpus import TextCorpus
from headway.models import GPT, GPTConfig
from headway.tasks.language_modeling.packing import PackedSequences, TextBatch, in_order
from headway.training import TextObjective
from tests.fixtures.cpu_time import within

BOS, EOS = 0, 1


def corpus(folder: Path, sizes: Sequence[int], *, ends: bool, first: int = 2) -> TextCorpus:
    """Return documents of <bos>, `sizes` tokens and perhaps <eos>; token ids count up from `first`,
    so that each token shows its position."""
    ids, offsets, following = [], [], itertools.count(first)
    for size in sizes:
        offsets.append(len(ids))
        ids += [BOS, *itertools.islice(following, size), *([EOS] if ends else [])]
    return corpus_of(folder, np.array(ids), np.array(offsets), ends=ends)


def corpus_of(folder: Path, ids: Any, offsets: Any, *, ends: bool) -> TextCorpus:
    return TextCorpus(folder, ids.astype("<u4"), offsets, 3 * len(ids), has_separate_ends=ends)


Packed = Batches[Any, TextBatch]


def packed(*arguments: Any, **settings: Any) -> Packed:
    sequences = PackedSequences(*arguments, **settings)
    return Batches(sequences, sequences.batch)


def batches_from(stream: Packed, batches: int, epoch: int = 0, position: int = 0) -> list[Any]:
    """Return (epoch, position, next epoch and position, batch) of consecutive batches."""
    result = []
    for next_epoch, next_position, batch in itertools.islice(
        stream.stream(epoch, position), batches
    ):
        result.append(((epoch, position), batch))
        epoch, position = next_epoch, next_position
    return result


def batches_of_epoch(batches: Packed, epoch: int = 0) -> list[TextBatch]:
    return [batch for _, batch in batches_from(batches, batches.batches_per_epoch, epoch)]


def same(a: TextBatch, b: TextBatch) -> bool:
    return (
        torch.equal(a.tokens, b.tokens)
        and torch.equal(a.targets, b.targets)
        and (a.lengths, a.indices) == (b.lengths, b.indices)
    )


def real_targets(batches: Sequence[TextBatch]) -> list[int]:
    """Return the targets in order, without ignored ones and without special tokens."""
    flat = torch.cat([batch.targets.flatten() for batch in batches]).tolist()
    return [target for target in flat if target > EOS]


def check_sequences(text: TextCorpus, batch: TextBatch, starts: Sequence[int]) -> None:
    """Check all properties of a batch with plain loops."""
    ids, begins = np.asarray(text.ids).tolist(), set(text.offsets.tolist())
    length = batch.tokens.shape[1]
    expected_lengths = []
    for row, start in enumerate(starts):
        lengths = [0]
        for column in range(length):
            position = start + column
            if position + 1 >= len(ids):  # past the end: one run of zeros
                if position + 1 == len(ids) and column:
                    lengths.append(0)
                assert batch.tokens[row, column] == 0
                assert batch.targets[row, column] == IGNORED
            else:
                if position in begins and column:
                    lengths.append(0)
                assert batch.tokens[row, column] == ids[position]
                ignored = text.has_separate_ends and position + 1 in begins
                assert batch.targets[row, column] == (IGNORED if ignored else ids[position + 1])
            lengths[-1] += 1
        expected_lengths.append(tuple(lengths))
    if all(len(lengths) == 1 for lengths in expected_lengths):
        assert batch.lengths is None
    else:
        assert batch.lengths == tuple(expected_lengths)
        assert all(sum(lengths) == length for lengths in batch.lengths)


sizes = st.lists(st.integers(1, 12), min_size=1, max_size=12)
length = st.integers(1, 9)
rows = st.integers(1, 5)


@given(sizes, length, rows, st.booleans())
def test_evaluation_predicts_every_token_once_and_in_order(
    tmp_path_factory, sizes, length, rows, ends
):
    text = corpus(tmp_path_factory.mktemp("text"), sizes, ends=ends)
    batches = list(in_order(text, rows, length))
    assert real_targets(batches) == [i for i in text.ids.tolist()[1:] if i > EOS]
    num_targets = sum(int((batch.targets != IGNORED).sum()) for batch in batches)
    assert num_targets == len(text) - 1 - (len(sizes) - 1 if ends else 0)
    for number, batch in enumerate(batches):
        starts = [(number * rows + row) * length for row in range(len(batch.tokens))]
        assert batch.indices == tuple(starts)
        check_sequences(text, batch, starts)


def fits(sizes: Sequence[int], length: int, ends: bool) -> bool:
    return sum(sizes) + len(sizes) * (1 + ends) > length


@given(sizes, length, rows, st.booleans(), st.integers(0, 9))
def test_sequences_are_the_tokens_of_the_text_with_its_document_borders(
    tmp_path_factory, sizes, length, rows, ends, seed
):
    text = corpus(tmp_path_factory.mktemp("text"), [*sizes, 9], ends=ends)
    for epoch in (0, 1, 7):
        for batch in batches_of_epoch(packed([text], rows, length, seed=seed), epoch):
            assert len(batch.tokens) <= rows
            check_sequences(text, batch, batch.indices)
            assert max(batch.indices) + length < len(text)


@given(sizes, length, rows, st.booleans(), st.integers(0, 9))
def test_an_epoch_has_nearly_every_token_once(tmp_path_factory, sizes, length, rows, ends, seed):
    folder = tmp_path_factory.mktemp("text")
    texts = [
        corpus(folder / "a", [*sizes, 9], ends=ends),
        corpus(folder / "b", [20, *sizes], ends=ends, first=1000),
    ]
    targets = real_targets(batches_of_epoch(packed(texts, rows, length, seed=seed), seed))
    assert len(set(targets)) == len(targets)
    everything = [i for text in texts for i in text.ids.tolist()[1:] if i > EOS]
    assert set(targets) <= set(everything)
    # At the two ends of each corpus, less than two sequences are left for another epoch.
    assert len(everything) - len(targets) <= len(texts) * (2 * length - 2)


@given(
    st.lists(st.integers(10, 60), min_size=1, max_size=3),
    rows,
    st.booleans(),
    st.integers(0, 3),
    st.data(),
)
def test_a_stream_can_start_at_any_batch(tmp_path_factory, totals, rows, weighted, seed, data):
    folder = tmp_path_factory.mktemp("text")
    texts = [
        corpus(folder / str(i), [total], ends=False, first=1000 * i + 2)
        for i, total in enumerate(totals)
    ]
    weights = [0.5, 3.0, 1.25][: len(texts)] if weighted else []

    def fresh() -> Packed:
        return packed(texts, rows, 4, weights=weights, seed=seed)

    batches = fresh()
    whole = batches_from(batches, 3 * batches.batches_per_epoch + 1)
    assert [position for position, _ in whole] == [
        divmod(number, batches.batches_per_epoch) for number in range(len(whole))
    ]
    start = data.draw(st.integers(0, len(whole) - 1))
    for stream in (fresh(), batches):  # a new stream, and one that has been read before
        resumed = batches_from(stream, len(whole) - start, *whole[start][0])
        assert [position for position, _ in resumed] == [position for position, _ in whole[start:]]
        assert all(same(a[1], b[1]) for a, b in zip(resumed, whole[start:], strict=True))


def test_two_streams_of_the_same_batches_are_independent(tmp_path):
    batches = packed([corpus(tmp_path, [90], ends=False)], 2, 5, weights=[1.0])
    separate = [batches_from(batches, 20, epoch) for epoch in (0, 6)]
    streams = [batches.stream(epoch, 0) for epoch in (0, 6)]
    for number in range(20):
        for stream, expected in zip(streams, separate, strict=True):
            assert same(next(stream)[2], expected[number][1])


@given(
    st.lists(st.tuples(st.integers(10, 200), st.floats(0.01, 50)), min_size=1, max_size=4),
    rows,
)
def test_weights_are_fractions_of_the_sequences_within_one_sequence_an_epoch(
    tmp_path_factory, totals_and_weights, rows
):
    folder = tmp_path_factory.mktemp("text")
    texts = [
        corpus(folder / str(i), [total], ends=False, first=1000 * i + 2)
        for i, (total, _) in enumerate(totals_and_weights)
    ]
    weights = [weight for _, weight in totals_and_weights]
    mixed = packed(texts, rows, 5, weights=weights)
    plain = packed(texts, rows, 5)
    batches = batches_of_epoch(mixed, 2)
    targets = torch.cat([batch.targets for batch in batches])[:, -1]
    assert len(targets) == sum(plain.order.quotas)
    for number, weight in enumerate(weights):
        count = int((targets // 1000 == number).sum())
        assert abs(count - len(targets) * weight / sum(weights)) <= 1
    assert plain.order.quotas.tolist() == [source.num_sequences for source in plain.order.sources]


def test_a_weighted_text_repeats_at_its_own_pace_in_new_orders(tmp_path):
    small = corpus(tmp_path / "small", [35], ends=False)
    large = corpus(tmp_path / "large", [400], ends=False, first=1000)
    mixed = packed([small, large], 3, 5, weights=[1.0, 1.0], seed=4)
    per_pass = mixed.order.sources[0].num_sequences
    assert mixed.order.quotas[0] > 5 * per_pass
    starts = [
        start - 2
        for epoch in (0, 1)
        for batch in batches_of_epoch(mixed, epoch)
        for start in batch.targets[:, 0].tolist()
        if start < 1000
    ]
    passes = [starts[at : at + per_pass] for at in range(0, len(starts), per_pass)]
    full = [order for order in passes if len(order) == per_pass]
    assert len(full) > 10
    for order in full:  # all of the text is read before any of it is repeated
        assert len({start - min(order) for start in order}) == per_pass
        assert sorted(order) == list(range(min(order), min(order) + 5 * per_pass, 5))
    assert len({tuple(start - min(order) for start in order) for order in full}) > len(full) // 2
    assert len({min(order) for order in full}) > 1
    large_shown = real_targets(batches_of_epoch(mixed, 0))
    once = [target for target in large_shown if target >= 1000]
    assert len(set(once)) == len(once)


def test_seeds_and_epochs_give_other_sequences_in_other_orders(tmp_path):
    text = corpus(tmp_path, [500], ends=False)
    orders = {
        tuple(
            start
            for batch in batches_of_epoch(packed([text], 4, 7, seed=seed), epoch)
            for start in batch.indices
        )
        for seed, epoch in itertools.product(range(3), range(3))
    }
    assert len(orders) == 9
    assert len({min(order) for order in orders}) > 2  # the sequences begin at other tokens


def test_the_last_batch_of_an_epoch_has_the_remaining_sequences(tmp_path):
    batches = packed([corpus(tmp_path, [79], ends=False)], 4, 5)
    assert batches.order.quotas.tolist() == [15]
    assert [len(batch.tokens) for batch in batches_of_epoch(batches)] == [4, 4, 4, 3]


def test_a_text_of_one_sequence_is_enough_and_less_is_refused(tmp_path):
    text = corpus(tmp_path / "short", [7], ends=False)
    (batch,) = batches_of_epoch(packed([text], 4, 7))
    assert batch.tokens.tolist() == [text.ids[:-1].tolist()]
    with pytest.raises(
        DataError, match="more than 8 tokens, the sequence length, but has 8"
    ) as caught:
        packed([text], 4, 8)
    assert caught.value.where == str(tmp_path / "short")
    assert "--training.length to 7 or less" in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "one weight for each of 2 corpora, but there are 1"),
        ([1.0, 2.0, 3.0], "one weight for each of 2 corpora, but there are 3"),
        ([1.0, -1.0], "must be positive numbers, but are 1.0,"),
        ([1.0, 0.0], "must be positive numbers, but are 1.0,"),
        ([1.0, float("nan")], "must be positive numbers, but are 1.0, nan"),
        ([1.0, float("inf")], "must be positive numbers, but are 1.0,"),
    ],
)
def test_invalid_weights_are_refused(tmp_path, weights, message):
    text = corpus(tmp_path, [30], ends=False)
    with pytest.raises(UsageError, match=message) as caught:
        packed([text, text], 2, 5, weights=weights)
    assert "--data.weights" in str(caught.value)


@pytest.mark.parametrize(("count", "rows", "length"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_batches_without_a_corpus_sequence_or_token_are_refused(tmp_path, count, rows, length):
    text = corpus(tmp_path, [30], ends=False)
    with pytest.raises(ValueError, match=f"{count} corpora, batch_size={rows}, {length=}"):
        packed([text] * count, rows, length)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_packed_sequences_have_the_loss_of_their_separate_documents(tmp_path, ends, positions):
    """Packing all documents in one sequence gives the total loss of the separate documents."""
    torch.manual_seed(2)
    sizes = [3, 1, 6, 2, 9]
    text = corpus(tmp_path, sizes, ends=ends)
    config = GPTConfig(
        model_dim=24,
        num_heads=3,
        ffn_dim=40,
        num_layers=2,
        max_length=40,
        vocabulary=40,
        positions=positions,
    )
    model = GPT(config)
    (together,) = in_order(text, 1, len(text) - 1)
    documents = []
    for ids in np.split(np.asarray(text.ids).astype(np.int64), text.offsets[1:]):
        # Without <eos>, the <bos> of the next document is the last target of this one.
        is_last = ids[-1] == text.ids[-1]
        whole = ids if ends or is_last else np.append(ids, BOS)
        row = torch.from_numpy(whole)[None]
        documents.append(TextBatch(row[:, :-1], row[:, 1:], None, ()))
    expected = [TextObjective()(model, document) for document in documents]
    result = TextObjective()(model, together)
    assert result.count == sum(document.count for document in expected)
    mean = sum(document.total for document in expected) / result.count
    assert_close(result.total / result.count, mean, rtol=0, atol=1e-5)
    result.total.backward()
    packed_gradient = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    sum(document.total for document in expected).backward()
    for a, b in zip(packed_gradient, model.parameters(), strict=True):
        assert_close(a, b.grad, rtol=0, atol=1e-5)


def test_a_large_text_starts_in_the_middle_at_once(tmp_path):
    count = 10_000_000
    text = corpus_of(tmp_path, np.arange(count) % 50_000, np.arange(0, count, 1000), ends=False)
    with within(1):
        stream = packed([text], 16, 256, seed=3)
        _, _, batch = next(stream.stream(5, stream.batches_per_epoch // 2))
    assert batch.tokens.shape == (16, 256)
