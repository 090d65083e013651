"""Copies of texts in which words are replaced by similar words, the same in every epoch."""

import numpy as np
import pytest
import torch

from headway.tasks.classification.word_replacement import AugmentedTexts, Neighbours

# ids 0, 1 are special tokens, 6 continues the previous word; 2 and 3, 4 and 5 have equal directions
TABLE = torch.tensor(
    [[1.0, 0], [0, 1], [1, 0.1], [9, 0], [0.1, 1], [0, 7], [1, 1], [-1, -1]], dtype=torch.float32
)
WHOLE = [False, False, True, True, True, True, False, True]
CONTINUES = [False] * 6 + [True, False]
ROWS = [[0, 2, 4, 1], [0, 3, 6, 5, 7, 1]]


def neighbours_of(ids=range(8), most=1):
    return Neighbours.of(TABLE, WHOLE, CONTINUES, list(ids), most)


def test_neighbours_are_the_nearest_whole_words_whatever_their_length():
    result = neighbours_of()
    assert {i: result.nearest[result.rows[i]].tolist() for i in (2, 3, 4, 5)} == {
        2: [3],
        3: [2],
        4: [5],
        5: [4],
    }
    assert result.rows[[0, 1, 6]].tolist() == [-1, -1, -1]
    assert neighbours_of([2]).rows.tolist() == [-1, -1, 0, -1, -1, -1, -1, -1]
    two = neighbours_of(most=2)
    assert two.nearest[two.rows[2]].tolist() == [3, 4]  # itself is none of them


def test_words_of_several_tokens_and_special_tokens_are_kept():
    result = neighbours_of().replaced(ROWS[1], 1.0, np.random.default_rng(0))
    assert result[:3] == [0, 3, 6] and result[3] == 4 and result[-1] == 1
    assert neighbours_of().replaced(ROWS[0], 1.0, np.random.default_rng(0)) == [0, 3, 5, 1]
    assert neighbours_of([]).replaced(ROWS[0], 1.0, np.random.default_rng(0)) == ROWS[0]


def test_a_fraction_of_the_words_is_replaced_by_all_of_their_neighbours():
    row = [2] * 4000
    result = neighbours_of(most=2).replaced(row, 0.4, np.random.default_rng(1))
    counts = np.bincount(result, minlength=5)
    assert counts[2] / 4000 == pytest.approx(0.6, abs=0.03)
    assert counts[3] / 4000 == pytest.approx(0.2, abs=0.03)
    assert counts[3] + counts[4] == 4000 - counts[2]


def test_copies_follow_the_texts_and_are_the_same_each_time():
    texts = AugmentedTexts(rows=ROWS, neighbours=neighbours_of(), copies=3, probability=0.5, seed=7)
    assert texts.lengths == [4, 6] * 4
    batch = texts.batch([1, 0], pad=0)
    assert batch.tokens.tolist() == [ROWS[1], [*ROWS[0], 0, 0]]
    assert batch.keys.sum(1).tolist() == [6, 4] and batch.indices == (1, 0)
    copies = [texts.batch([i], pad=0).tokens[0].tolist() for i in (0, 2, 4, 6)]
    assert copies[0] == ROWS[0] and len({tuple(copy) for copy in copies}) > 1
    batched = texts.batch([2, 4, 6], pad=0).tokens.tolist()
    assert batched == copies[1:]
    other_seed = AugmentedTexts(
        rows=ROWS, neighbours=neighbours_of(), copies=3, probability=0.5, seed=8
    )
    assert any(list(other_seed.row(i)) != list(texts.row(i)) for i in range(2, 8))


def test_pairs_keep_their_segment_ids():
    types = [[0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]
    texts = AugmentedTexts(
        rows=ROWS, types=types, neighbours=neighbours_of(), copies=1, probability=1.0
    )
    assert texts.batch([3, 0], pad=0).types.tolist() == [types[1], [*types[0], 0, 0]]
    with pytest.raises(ValueError, match="neighbours"):
        AugmentedTexts(rows=ROWS, copies=1)
