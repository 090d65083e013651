"""Packs conversations into the sequences of batches, whose tokens and targets it returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.base.chunks import chunks
from headway.base.shapes import Int, Tensor
from headway.data.padding import IGNORED
from headway.data.store import Array
from headway.data.stream import SHUFFLE, Batch, Order
from headway.tasks.dialogue_store import EncodedDialogues

OPEN_ROWS = 64
"""Maximum number of sequences that are filled at the same time."""


@dataclass(frozen=True)
class DialogueBatch(Batch):
    """Packed conversations for next-token prediction, as `training.objectives.Texts`.

    targets: the next token, -1 where it is not learned. lengths: lengths of the conversations in
    each sequence, and of the padding after them. count: the number of targets.
    """

    examples = "conversations"
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    lengths: tuple[tuple[int, ...], ...]
    indices: tuple[int, ...]
    count: int


Rows = Sequence[Sequence[int]]
"""The indices of the conversations in each sequence of a batch."""


def packed(dialogues: EncodedDialogues, rows: Rows) -> DialogueBatch:
    """Return a batch of sequences with these conversations, as long as the fullest of them."""
    sizes = dialogues.lengths
    width = max(int(sizes[row].sum()) for row in rows)
    tokens = np.zeros((len(rows), width), np.int64)
    targets = np.full((len(rows), width), IGNORED, np.int64)
    lengths = []
    for number, row in enumerate(rows):
        start, within = 0, []
        for index in row:
            ids, is_target = dialogues.sequence(index)
            end = start + len(ids) - 1
            tokens[number, start:end] = ids[:-1]
            targets[number, start:end] = np.where(is_target[1:], ids[1:], IGNORED)
            within.append(end - start)
            start = end
        lengths.append((*within, width - start) if start < width else tuple(within))
    return DialogueBatch(
        torch.from_numpy(tokens),
        torch.from_numpy(targets),
        tuple(lengths),
        tuple(index for row in rows for index in row)[:8],
        int((targets != IGNORED).sum()),
    )


def rows_of(order: Iterable[int], lengths: Array, room: int) -> list[list[int]]:
    """Assign conversations to sequences of at most `room` positions; none is split.

    Each takes the first of the open sequences in which it fits; the oldest of more than
    `OPEN_ROWS` is closed.
    """
    closed: list[list[int]] = []
    unfilled: list[tuple[list[int], int]] = []
    for index in order:
        size = int(lengths[index])
        for number, (row, left) in enumerate(unfilled):
            if size <= left:
                row.append(index)
                unfilled[number] = (row, left - size)
                break
        else:
            unfilled.append(([index], room - size))
            if len(unfilled) > OPEN_ROWS:
                closed.append(unfilled.pop(0)[0])
    return [*closed, *(row for row, _ in unfilled)]


class PackedDialogues(Order[Rows]):
    """Each epoch has each conversation once, in sequences that are packed anew.

    Sequences of a batch are about equally full, so that it needs little padding: it is as long as
    the fullest. The batches are shuffled. padding: the fraction of padding in epoch 0.
    """

    def __init__(self, lengths: Array, batch_size: int, room: int, seed: int) -> None:
        self.lengths, self.batch_size, self.room, self.seed = lengths, batch_size, room, seed
        self.examples_per_epoch = len(lengths)
        first = self(0)
        self._first = len(first)
        cells = sum(len(rows) * max(map(self._size, rows)) for rows in first)
        self.padding = 1 - int(lengths.sum()) / cells

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches of epoch 0."""
        return self._first

    def __call__(self, epoch: int) -> list[Rows]:
        random = np.random.default_rng([self.seed, SHUFFLE, epoch])
        order = random.permutation(self.examples_per_epoch).tolist()
        rows = rows_of(order, self.lengths, self.room)
        rows.sort(key=self._size, reverse=True)  # equally full ones stay shuffled
        batches = list(chunks(rows, self.batch_size))
        return [batches[i] for i in random.permutation(len(batches))]

    def _size(self, row: Sequence[int]) -> int:
        return int(self.lengths[row].sum())
