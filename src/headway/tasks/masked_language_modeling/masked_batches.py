"""Streams batches for masked language modelling and next-sentence prediction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.base.errors import DataError
from headway.base.shapes import Int, Tensor
from headway.data.padding import IGNORED, EncoderBatch, collate_encoder_batch, padded
from headway.data.stream import Array, Batch, Order, parts
from headway.tasks.masked_language_modeling.config import EncoderRunConfig
from headway.tasks.masked_language_modeling.data import SentenceCorpus
from headway.tasks.masked_language_modeling.masking import Masking
from headway.tasks.masked_language_modeling.sentence_pairs import (
    ELSEWHERE,
    FIRST,
    FIRST_END,
    SAME_CORPUS,
    SECOND,
    SECOND_END,
    CorpusMixture,
    Plan,
    fitted,
    full_sentence_plan,
    sentence_pair_plan,
)
from headway.text import SpecialTokens

_PLAN, _ROW, _ORDER, _MIXTURE = range(4)  # purposes of random numbers


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """A batch for masked language modelling.

    framed: masked input sequences. targets: the true token at each position to predict, -1 at all
    others. elsewhere: label of next-sentence prediction, 1 if the second text does not follow the
    first; None without pairs. indices: indices of the sequences in their pass, for messages. count:
    the number of positions to predict; None if they are to be counted.
    """

    examples = "sequences"
    framed: EncoderBatch
    targets: Int[Tensor, "B T"]
    elsewhere: Int[Tensor, " B"] | None
    indices: tuple[int, ...] = ()
    count: int | None = None


@dataclass(frozen=True)
class Source:
    """A corpus, and how sequences are made from it: pairs of texts for next-sentence prediction, of
    which half do not follow each other, or full sentences.

    config: the settings of the run. special_tokens: their ids. number: index of this corpus among
    all. anywhere: corpora, including this one, from which second texts are sampled in the initial
    epochs; None: only this corpus.
    """

    corpus: SentenceCorpus
    config: EncoderRunConfig
    masking: Masking
    special_tokens: SpecialTokens
    number: int = 0
    anywhere: CorpusMixture | None = None

    @property
    def room(self) -> int:
        """The maximum number of tokens of a sequence without special tokens."""
        framing = 2 + (self.special_tokens.between if self.pairs else 0)
        return self.config.training.length - framing

    @property
    def pairs(self) -> bool:
        """Whether a sequence is a pair of texts."""
        return self.config.model.next_sentence

    def plan(self, version: int, turn: int = 0, mixed: bool = False) -> Plan:
        """Return the plan of a pass over the corpus.

        mixed: sample second texts that do not follow the first from all corpora. Raises DataError
        if the corpus has no document with two sentences.
        """
        training = self.config.training
        key = [training.seed, _PLAN, self.number, version, turn]
        if self.pairs:
            anywhere = self.anywhere if mixed else None
            plan = sentence_pair_plan(self.corpus, self.room, training.short, key, anywhere)
        else:
            plan = full_sentence_plan(self.corpus, self.room, key)
        if not len(plan):
            raise DataError(
                "next-sentence prediction needs documents with at least two sentences, but the "
                "corpus has none",
                str(self.corpus.folder),
                "choose another --data.split, or set --model.next-sentence false",
            )
        return plan

    def row(
        self, planned: Array, index: int, version: int, turn: int = 0
    ) -> tuple[list[int], list[int], list[int]]:
        """Return (ids, types, targets) of sequence `index` of a plan, whose row is `planned`. They
        depend only on (seed, number, version, turn, index)."""
        first_at, first_end, second_at, second_end, _, corpus_number = planned.tolist()
        key = [self.config.training.seed, _ROW, self.number, version, turn, index]
        random = np.random.default_rng(key)
        first = self.corpus.run(first_at, first_end)
        if second_at == second_end:
            ids, types = self.special_tokens.frame(first.tolist(), room=self.config.training.length)
        else:
            second_corpus = self.corpus
            if corpus_number != SAME_CORPUS and self.anywhere is not None:
                second_corpus = self.anywhere.corpora[corpus_number]
            second = second_corpus.run(second_at, second_end)
            first, second = fitted(first, second, self.room, random)
            ids, types = self.special_tokens.frame(first.tolist(), second.tolist())
        masked_ids, positions = self.masking(ids, random)
        targets = [IGNORED] * len(ids)
        for position in positions:
            targets[position] = ids[position]
        return masked_ids, types, targets


class MaskedSequences(Order[Array]):
    """The sequences of one or several corpora: the order of an epoch, and masked batches of them.

    An epoch of one corpus is a pass over it, with each sequence once. An epoch of several has as
    many sequences as one pass over all; corpus i contributes the fraction p_i^a / sum_j p_j^a,
    where p_i is its fraction of the tokens and a is `smoothing` (Conneau and Lample 2019, section
    3.1; multilingual BERT). So small corpora repeat, and large ones are not read to the end. With
    static masking, epoch e has the sequences of epoch e modulo `duplicates`, in another order. A
    sequence depends only on the seed, the epoch and its index, not on the rest of the batch.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.training, self.masking = sources[0].config.training, sources[0].masking.config
        corpora = [source.corpus for source in sources]
        self.fractions = CorpusMixture.among(
            corpora, sources[0].config.data.smoothing
        ).probabilities
        """The fraction of the sequences that come from each corpus."""
        sizes = [len(source.plan(0)) for source in sources]
        self.quotas = np.maximum(1, np.round(self.fractions * sum(sizes))).astype(np.int64)
        self.examples_per_epoch = int(self.quotas.sum())
        self.batch_size = self.training.batch_size

    def __call__(self, epoch: int) -> list[Array]:
        """Return a row for each sequence of a batch: the number of its corpus, the number of the
        pass over it, its index in the pass, and its row of the plan."""
        rows = np.concatenate([self._of_corpus(i, epoch) for i in range(len(self.sources))])
        random = np.random.default_rng([self.training.seed, _MIXTURE, epoch])
        return parts(rows[random.permutation(len(rows))], self.batch_size)

    def _version(self, epoch: int) -> int:
        return epoch if self.masking.dynamic else epoch % self.masking.duplicates

    def _of_corpus(self, number: int, epoch: int) -> Array:
        """Return the rows of one corpus in an epoch: of one pass, or as many as its quota."""
        source = self.sources[number]
        quota = int(self.quotas[number]) if len(self.sources) > 1 else None
        passes: list[Array] = []
        while sum(map(len, passes)) < (quota or 1):
            turn = len(passes)
            plan = source.plan(self._version(epoch), turn, epoch < self.training.mixed)
            key = [self.training.seed, _ORDER, source.number, epoch, turn]
            order = np.random.default_rng(key).permutation(len(plan))
            numbers = np.tile([number, turn], (len(plan), 1))
            passes.append(np.concatenate([numbers, order[:, None], plan[order]], axis=1))
        return np.concatenate(passes)[:quota]

    def batch(self, chosen: Array, epoch: int) -> MaskedBatch:
        """Return the sequences of these rows as a batch."""
        version = self._version(epoch)
        rows = [
            self.sources[number].row(planned, index, version, turn)
            for (number, turn, index), planned in zip(
                chosen[:, :3].tolist(), chosen[:, 3:], strict=True
            )
        ]
        elsewhere = chosen[:, 3 + ELSEWHERE].tolist()
        return _collate(self.sources[0], rows, elsewhere, chosen[:, 2].tolist())


def evaluation_batches(
    source: Source, batch_size: int, most: int, device: str = "cpu"
) -> Iterator[MaskedBatch]:
    """Yield batches for evaluation: the same sequences with the same masks at each call.

    batch_size: number of sequences per batch. most: maximum number of sequences, evenly spaced over
    the whole corpus.
    """
    plan = source.plan(0)
    chosen = np.unique(np.linspace(0, len(plan) - 1, min(most, len(plan))).round().astype(int))
    for part in parts(chosen, batch_size):
        indices = part.tolist()
        examples = [source.row(plan[index], index, 0) for index in indices]
        elsewhere = plan[indices, ELSEWHERE].tolist()
        yield _collate(source, examples, elsewhere, indices).to(device)


def predictions_per_sequence(source: Source) -> float:
    """Return the mean number of tokens to predict per sequence."""
    plan, sums = source.plan(0), source.corpus.sums
    tokens = sums[plan[:, FIRST_END]] - sums[plan[:, FIRST]]
    tokens += sums[plan[:, SECOND_END]] - sums[plan[:, SECOND]]
    counts = [source.masking.count(int(n)) for n in np.minimum(tokens, source.room)]
    return float(np.mean(counts))


def _collate(
    source: Source,
    rows: Sequence[tuple[list[int], list[int], list[int]]],
    elsewhere: list[int],
    indices: list[int],
) -> MaskedBatch:
    ids, types, targets = zip(*rows, strict=True)
    padded_targets = padded(targets, IGNORED)[0]
    return MaskedBatch(
        collate_encoder_batch(ids, types if source.pairs else None, source.special_tokens.pad),
        padded_targets,
        torch.tensor(elsewhere) if source.pairs else None,
        tuple(indices[:8]),
        int((padded_targets != IGNORED).sum()),
    )
