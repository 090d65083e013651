"""Rows for masked-word and next-sentence training, as an endless stream that can be entered
anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch

from headway.data.batches import padded
from headway.data.encoder_batches import FramedBatch, collate_framed
from headway.data.epochs import endless
from headway.data.masking import Masking
from headway.data.sentence_pairs import (
    ELSEWHERE,
    FIRST,
    FIRST_END,
    OWN,
    SECOND,
    SECOND_END,
    Elsewhere,
    Plan,
    fitted,
    full_rows,
    pair_rows,
)
from headway.data.sentences import SentenceCorpus
from headway.errors import DataError
from headway.shapes import Int, Tensor
from headway.text import Marks

IGNORED = -1
_PLAN, _ROW, _ORDER, _MIXTURE = range(4)  # what a random order is for


@dataclass(frozen=True)
class MaskedBatch:
    """framed: what is read. targets: the true token at each chosen place, -1 elsewhere. elsewhere:
    1 where the second text does not follow the first, None where there are no pairs. indices:
    numbers of the rows in their pass, for messages."""

    examples: ClassVar[str] = "sequences"  # what `indices` count, for messages
    framed: FramedBatch
    targets: Int[Tensor, "B T"]
    elsewhere: Int[Tensor, " B"] | None
    indices: tuple[int, ...] = ()

    def to(self, device: str) -> MaskedBatch:
        """The same on another device."""
        other = None if self.elsewhere is None else self.elsewhere.to(device)
        return MaskedBatch(self.framed.to(device), self.targets.to(device), other, self.indices)


@dataclass(frozen=True, kw_only=True)
class RowSettings:
    """rows: of a batch. length: most tokens of a row, marks included. pairs: two texts in a row,
    half of them apart; else full sentences. short: share of shorter pairs. smoothing: exponent of
    the corpora's shares. mixed: so many passes first, texts that stand apart come from any corpus.
    """

    rows: int
    length: int
    pairs: bool = True
    short: float = 0.1
    smoothing: float = 0.7
    mixed: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Source:
    """A corpus with what makes rows of it. number: of this corpus among all. anywhere: where second
    texts come from in the first passes, this corpus included; None: never but from this."""

    corpus: SentenceCorpus
    settings: RowSettings
    masking: Masking
    marks: Marks
    number: int = 0
    anywhere: Elsewhere | None = None

    @property
    def room(self) -> int:
        """Tokens of a row besides its marks."""
        return self.settings.length - 2 - (self.marks.between if self.settings.pairs else 0)

    def plan(self, version: int, turn: int = 0, mixed: bool = False) -> Plan:
        """A pass over the corpus. mixed: texts that stand apart come from anywhere. DataError where
        nothing can be made of it."""
        how = self.settings
        key = [how.seed, _PLAN, self.number, version, turn]
        if how.pairs:
            anywhere = self.anywhere if mixed else None
            found = pair_rows(self.corpus, self.room, how.short, key, anywhere)
        else:
            found = full_rows(self.corpus, self.room, key)
        if not len(found):
            raise DataError(
                "no document in it has two sentences, so that none has a next one",
                str(self.corpus.text.folder),
                "another --data.split, or --model.next-sentence false",
            )
        return found

    def row(
        self, plan: Plan, index: int, version: int, turn: int = 0
    ) -> tuple[list[int], list[int], list[int]]:
        """(ids, types, targets) of one row. Follows from (seed, number, version, turn, index)."""
        first_at, first_end, second_at, second_end, _, which = plan[index].tolist()
        key = [self.settings.seed, _ROW, self.number, version, turn, index]
        random = np.random.default_rng(key)
        first = self.corpus.run(first_at, first_end)
        if second_at == second_end:
            ids, types = self.marks.frame(first.tolist(), room=self.settings.length)
        else:
            there = self.corpus
            if which != OWN and self.anywhere is not None:
                there = self.anywhere.corpora[which]
            second = there.run(second_at, second_end)
            first, second = fitted(first, second, self.room, random)
            ids, types = self.marks.frame(first.tolist(), second.tolist())
        shown, places = self.masking(ids, random)
        targets = [IGNORED] * len(ids)
        for place in places:
            targets[place] = ids[place]
        return shown, types, targets


@dataclass
class _Pass:
    """An epoch: plans of each source, and in which order their rows come."""

    plans: list[list[Plan]] = field(default_factory=list)
    order: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), np.int64))


class MaskedRows:
    """Corpora as an endless stream of batches.

    An epoch of one corpus is a pass over it, and every row once. Of several, corpus i gives the
    share p_i^a / sum_j p_j^a of as many rows as one pass over all has, where p_i is its share of
    the tokens and a is `smoothing` (Conneau and Lample 2019, section 3.1; multilingual BERT): small
    ones repeat, others are not read to their end. Where masking is static, epoch e has the rows of
    epoch e modulo `duplicates`, in another order. What is in a row follows from the seed, the epoch
    and its own number, and not from the rows beside it.
    """

    def __init__(self, sources: Sequence[Source], device: str = "cpu") -> None:
        self.sources, self.device = sources, device
        self.settings, self.masking = sources[0].settings, sources[0].masking.config
        corpora = [source.corpus for source in sources]
        self.shares = Elsewhere.among(corpora, self.settings.smoothing).shares
        """Of all rows, those of each corpus."""
        sizes = [len(source.plan(0)) for source in sources]
        self.quotas = np.maximum(1, np.round(self.shares * sum(sizes))).astype(np.int64)
        self.batches_an_epoch = -(-int(self.quotas.sum()) // self.settings.rows)
        self._epoch, self._pass = -1, _Pass()

    def stream(self, epoch: int, position: int) -> Iterator[tuple[int, int, MaskedBatch]]:
        """(next epoch, next position, batch), starting at batch `position` of `epoch`."""
        rows = self.settings.rows

        def batches(number: int) -> list[npt.NDArray[np.int64]]:
            order = self._of(number).order
            return [order[start : start + rows] for start in range(0, len(order), rows)]

        return endless(
            batches,
            lambda chosen, number: self._batch(number, chosen).to(self.device),
            epoch,
            position,
        )

    def _version(self, epoch: int) -> int:
        return epoch if self.masking.dynamic else epoch % self.masking.duplicates

    def _of(self, epoch: int) -> _Pass:
        if epoch == self._epoch:
            return self._pass
        found, seed = _Pass(), self.settings.seed
        orders = []
        for number, source in enumerate(self.sources):
            plans, rows = self._plans(source, epoch)
            found.plans.append(plans)
            numbers = np.full((len(rows), 1), number, np.int64)
            orders.append(np.concatenate([numbers, rows], axis=1))
        together = np.concatenate(orders)
        random = np.random.default_rng([seed, _MIXTURE, epoch])
        found.order = together[random.permutation(len(together))]
        self._epoch, self._pass = epoch, found
        return found

    def _plans(self, source: Source, epoch: int) -> tuple[list[Plan], npt.NDArray[np.int64]]:
        """Passes over one corpus in an epoch, and (pass, row) of those rows that are read."""
        quota = int(self.quotas[source.number]) if len(self.sources) > 1 else 1
        plans: list[Plan] = []
        rows = np.empty((0, 2), np.int64)
        while len(rows) < quota:
            turn = len(plans)
            plan = source.plan(self._version(epoch), turn, epoch < self.settings.mixed)
            key = [self.settings.seed, _ORDER, source.number, epoch, turn]
            order = np.random.default_rng(key).permutation(len(plan))
            turns = np.full(len(plan), turn, np.int64)
            rows = np.concatenate([rows, np.stack((turns, order), axis=1)])
            plans.append(plan)
        return plans, rows[:quota] if len(self.sources) > 1 else rows

    def _batch(self, epoch: int, chosen: npt.NDArray[np.int64]) -> MaskedBatch:
        plans, version = self._of(epoch).plans, self._version(epoch)
        rows, apart = [], []
        for number, turn, index in chosen.tolist():
            plan = plans[number][turn]
            rows.append(self.sources[number].row(plan, index, version, turn))
            apart.append(int(plan[index, ELSEWHERE]))
        return _collate(self.sources[0], rows, apart, chosen[:, 2].tolist())


def rows_in_order(
    source: Source, rows: int, most: int, device: str = "cpu"
) -> Iterator[MaskedBatch]:
    """The same rows whenever it is called, with the same words hidden: for evaluation.

    most: of all rows, taken evenly from the whole corpus.
    """
    plan = source.plan(0)
    chosen = np.unique(np.linspace(0, len(plan) - 1, min(most, len(plan))).round().astype(int))
    for start in range(0, len(chosen), rows):
        indices = chosen[start : start + rows].tolist()
        made = [source.row(plan, index, 0) for index in indices]
        apart = plan[indices, ELSEWHERE].tolist()
        yield _collate(source, made, apart, indices).to(device)


def words_a_row(source: Source) -> float:
    """How many words are hidden in a row on the average, as planned."""
    plan, sums = source.plan(0), source.corpus.sums
    tokens = sums[plan[:, FIRST_END]] - sums[plan[:, FIRST]]
    tokens += sums[plan[:, SECOND_END]] - sums[plan[:, SECOND]]
    counts = [source.masking.count(int(n)) for n in np.minimum(tokens, source.room)]
    return float(np.mean(counts))


def _collate(
    source: Source,
    rows: Sequence[tuple[list[int], list[int], list[int]]],
    apart: list[int],
    indices: list[int],
) -> MaskedBatch:
    ids, types, targets = zip(*rows, strict=True)
    return MaskedBatch(
        collate_framed(ids, types if source.settings.pairs else None, source.marks.pad),
        padded(targets, IGNORED)[0],
        torch.tensor(apart) if source.settings.pairs else None,
        tuple(indices[:8]),
    )
