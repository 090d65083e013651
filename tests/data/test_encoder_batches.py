"""Framed texts as batches."""

import torch

from headway.data.padding import EncoderBatch, collate_encoder_batch, shortest_first

ROWS = [[2, 7, 3], [2, 3], [2, 8, 9, 3, 5, 3]]
TYPES = [[0, 0, 0], [0, 0], [0, 0, 0, 0, 1, 1]]


def test_sequences_are_padded_on_the_right_with_a_mask():
    batch = collate_encoder_batch(ROWS, None, pad=1)
    assert batch.tokens.tolist() == [[2, 7, 3, 1, 1, 1], [2, 3, 1, 1, 1, 1], ROWS[2]]
    assert (
        batch.keys.sum(1).tolist() == [3, 2, 6]
        and batch.keys[0].tolist() == [True] * 3 + [False] * 3
    )
    assert batch.types is None


def test_types_exist_only_with_a_second_text():
    batch = collate_encoder_batch(ROWS, TYPES, pad=1)
    assert batch.types is not None
    assert batch.types.tolist() == [[0] * 6, [0] * 6, TYPES[2]]
    assert collate_encoder_batch(ROWS[:2], TYPES[:2], pad=1).types is None


def test_a_batch_is_moved_to_a_device_as_a_whole():
    for types in (None, TYPES):
        batch = collate_encoder_batch(ROWS, types, pad=1)
        moved = batch.to("meta")
        assert isinstance(moved, EncoderBatch)
        assert {moved.tokens.device.type, moved.keys.device.type} == {"meta"}
        assert (moved.types is None) == (types is None)
        assert torch.equal(batch.to("cpu").tokens, batch.tokens)


def test_all_sequences_occur_once_the_shortest_first():
    rows = [[0] * n for n in (5, 1, 3, 2, 4, 1, 0)]
    batches = list(shortest_first(rows, 3))
    assert [len(part) for part in batches] == [3, 3, 1]
    assert [i for part in batches for i in part] == [6, 1, 5, 3, 2, 4, 0]
    assert list(shortest_first([], 3)) == []
