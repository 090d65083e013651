"""Rows of running text: every token once, borders where they are, and entered anywhere."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from headway.data.documents import Part
from headway.data.packing import IGNORED, TextRows, in_order
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.errors import DataError, UsageError
from headway.models import GPT, GPTConfig
from headway.text import Characters
from headway.training import TextObjective
from tests.data.language import TwoEnds

ALPHABET = "".join(chr(0x100 + i) for i in range(200))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus of documents of given lengths; its tokens tell their places apart."""
    count = 0

    def make(lengths, two_ends=False) -> TextCorpus:
        nonlocal count
        count += 1
        total, parts = 0, []
        for length in lengths:
            letters = [ALPHABET[i % 200] for i in range(total, total + length)]
            parts.append(Part("".join(letters), True))
            total += length
        tokenizer = TwoEnds([ALPHABET]) if two_ends else Characters(ALPHABET)
        return prepare_text(parts, tokenizer, tmp_path_factory.mktemp("c") / str(count))

    return make


def check_row(corpus: TextCorpus, start: int, batch, row: int) -> None:
    """One row is `start` and on, borders and targets included."""
    tokens, targets = batch.tokens[row].tolist(), batch.targets[row].tolist()
    length = len(tokens)
    ids = corpus.ids[start : start + length + 1].tolist()
    real = len(ids) - 1
    assert tokens[:real] == ids[:-1]
    begins = set(corpus.offsets.tolist())
    for i in range(real):
        starts_next = start + i + 1 in begins
        wanted = IGNORED if starts_next and corpus.marks_ends else ids[i + 1]
        assert targets[i] == wanted
    assert targets[real:] == [IGNORED] * (length - real)
    parts = batch.lengths[row] if batch.lengths else (length,)
    assert sum(parts) == length
    borders = np.cumsum(parts)[:-1].tolist()
    inside = [i for i in range(1, real) if start + i in begins]
    assert borders == inside + ([real] if real < length else [])


lengths = st.lists(st.integers(1, 30), min_size=1, max_size=12)


@settings(max_examples=40)
@given(lengths, st.integers(1, 4), st.integers(1, 20), st.booleans())
def test_evaluation_asks_for_every_token_once_and_in_order(made, documents, rows, length, two):
    corpus = made(documents, two)
    start = 0
    for batch in in_order(corpus, rows, length):
        for row in range(len(batch.tokens)):
            check_row(corpus, start, batch, row)
            start += length
    assert start - length < len(corpus) - 1 <= start


@settings(max_examples=40)
@given(lengths, st.integers(1, 4), st.integers(1, 12), st.booleans(), st.integers(0, 5))
def test_training_rows_are_running_text_and_an_epoch_has_nearly_all(
    made, documents, rows, length, two, epoch
):
    corpus = made([13, *documents], two)
    stream = TextRows([corpus], rows, length, seed=3)
    seen: list[int] = []
    for _, _, batch in islice(stream.stream(epoch, 0), stream.batches_an_epoch):
        for row in range(len(batch.tokens)):
            start = batch.indices[row]
            check_row(corpus, start, batch, row)
            seen += range(start + 1, start + length + 1)
    assert len(seen) == len(set(seen)), "a token stood in two rows"
    assert len(corpus) - 1 - len(seen) < 2 * length


@pytest.mark.parametrize("weights", [(), (1.0, 3.0)])
def test_a_stream_may_be_entered_anywhere(made, weights):
    corpora = [made([50, 3, 20]), made([40] * 3)]

    def fresh():
        return TextRows(corpora, 3, 7, weights=weights, seed=9)

    through = list(islice(fresh().stream(0, 0), 3 * fresh().batches_an_epoch))
    epoch = position = 0
    for number, (next_epoch, next_position, batch) in enumerate(through):
        again = next(fresh().stream(epoch, position))
        assert again[:2] == (next_epoch, next_position)
        assert torch.equal(again[2].tokens, batch.tokens) and again[2].lengths == batch.lengths
        epoch, position = next_epoch, next_position
        assert (epoch, position) == divmod(number + 1, fresh().batches_an_epoch)
    orders = [through[i * fresh().batches_an_epoch][2].tokens for i in range(3)]
    assert not torch.equal(orders[0], orders[1]), "two epochs in the same order"
    other = next(TextRows(corpora, 3, 7, weights=weights, seed=10).stream(0, 0))[2]
    assert not torch.equal(other.tokens, through[0][2].tokens)


def test_weights_are_shares_of_the_rows_and_short_corpora_repeat_in_new_orders(made):
    small, large = made([30]), made([400])
    rows = TextRows([small, large], 4, 5, weights=(3.0, 1.0), seed=0)
    total = sum(rows.quotas)
    assert abs(rows.quotas[0] / total - 0.75) <= 1 / total
    source = rows.sources[0]
    passes = [source.starts(np.arange(source.rows) + k * source.rows).tolist() for k in range(3)]
    assert len({tuple(order) for order in passes}) > 1
    for order in passes:
        assert len(set(order)) == source.rows
    drawn = [batch for _, _, batch in islice(rows.stream(0, 0), rows.batches_an_epoch)]
    assert sum(len(batch.tokens) for batch in drawn) == total


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0), (0.0, 0.0)])
def test_weights_that_make_no_sense_are_refused(made, weights):
    with pytest.raises(UsageError, match="weights"):
        TextRows([made([30]), made([30])], 2, 5, weights=weights)


def test_a_text_shorter_than_a_row_is_refused_with_what_would_do(made):
    with pytest.raises(DataError, match=r"8 tokens is too short for rows of 9") as caught:
        TextRows([made([7])], 2, 9)
    assert "--training.length 7" in str(caught.value.hint)


def test_packed_rows_teach_what_each_document_teaches_alone(made):
    corpus = made([5, 9, 2, 14, 1, 3])
    torch.manual_seed(0)
    model = GPT(
        GPTConfig(
            model_dim=24,
            num_heads=3,
            ffn_dim=40,
            num_layers=2,
            vocabulary=201,
            max_length=40,
        )
    ).double()
    batch = next(in_order(corpus, 1, len(corpus) - 1))
    assert batch.lengths is not None and len(batch.lengths[0]) == 6
    packed = TextObjective()(model, batch)
    alone = 0.0
    start = 0
    for part in batch.lengths[0]:
        ids = batch.tokens[:, start : start + part]
        logits = model(ids)[0]
        targets = batch.targets[0, start : start + part]
        alone += torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        start += part
    assert packed.count == len(corpus) - 1
    assert_close(packed.total, torch.as_tensor(alone), rtol=0, atol=1e-9)


def test_a_large_corpus_is_entered_in_its_middle_at_once(tmp_path):
    """Ten million tokens on disk: the first batch does not read or order them one by one."""
    import time

    count = 10_000_000
    corpus = TextCorpus.__new__(TextCorpus)
    corpus.folder, corpus.num_bytes, corpus.marks_ends = tmp_path, count, False
    corpus.ids = np.memmap(tmp_path / "ids.bin", np.uint16, "w+", shape=(count,))
    corpus.offsets = np.arange(0, count, 1000)
    rows = TextRows([corpus], 8, 256, seed=0)
    started = time.perf_counter()
    _, _, batch = next(rows.stream(3, rows.batches_an_epoch // 2))
    assert time.perf_counter() - started < 2
    assert batch.tokens.shape == (8, 256)
